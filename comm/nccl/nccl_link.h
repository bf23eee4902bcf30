// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/guard.h"
#include "comm/tree_sum.h"

namespace ventris {

class Communicator;

/// An NCCL communicator in which no rank waits forever. Its calls never block (NCCL's non-blocking mode) and
/// are polled until they are complete, with a timeout. A thread checks for errors while the device works, and
/// for sums that do not end: it then aborts the communicator, which ends the kernels that wait for a lost
/// peer, so that the host stops waiting for the device and receives the error in its next call here. If the
/// host makes no call for some seconds, because it waits for a rank that also waits, the thread ends the
/// process with the message.
class NcclLink {
 public:
  /// Joins the ranks of `control`, each on the current CUDA device of its thread; this one is on `host`.
  /// `control` has the limit of waits and calls the roll, and must outlive the object. Throws LateRanks
  /// if that fails or times out.
  NcclLink(const ncclUniqueId& id, Communicator& control, const std::string& host);
  /// Requires that the sums are complete, except during an exception.
  ~NcclLink();
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

  /// Enqueues data = sum over ranks. All ranks enqueue the same sums in the same order.
  void all_reduce_sum(void* data, size_t count, ncclDataType_t type, cudaStream_t stream);
  /// Enqueues the sum of Communicator::start_reduce_scatter_sum().
  void reduce_scatter_sum(const Tensor& data, cudaStream_t stream);
  /// Enqueues what Communicator::start_all_gather() sends, as one group.
  void all_gather(const std::vector<Tensor>& ranges, cudaStream_t stream);
  /// Enqueues all messages as one group. For a pair of ranks both enqueue the same ones in the same order.
  void exchange(const TreeMessages& messages, cudaStream_t stream);
  /// Watches the sums in the work enqueued on `stream` so far, for training step `step`: they must complete
  /// within the limit from now on. Does nothing while the stream is captured. All calls must use the same
  /// stream.
  void watch(cudaStream_t stream, int64_t step);
  /// Throws LateRanks if the communicator has failed or sums were not done in time. The first call of any
  /// function here after that calls the roll of the ranks, and the message names the absent ones.
  void check();
  /// Aborts the pending sums, for a rank that leaves with an exception.
  void abandon();

 private:
  /// A point in a stream, and whether the device has not reached it yet.
  struct Mark {
    cudaEvent_t event = nullptr;
    bool pending = false;
    int64_t step = 0;
  };

  /// Enqueues what `start` does, named `call`, with `count` numbers for messages, and settles it.
  template <typename Start>
  void enqueue(const char* call, size_t count, const Start& start);
  void settle(ncclResult_t status, const char* call);
  void run_watchdog();
  void poll_locked();
  void poll_marks_locked();
  /// Of equal segments, one for each rank, that of this rank.
  Tensor own_segment(const Tensor& data) const;
  void give_up_late_locked(const std::string& collective, int64_t step);
  void give_up_locked(const std::string& what, bool remote = false);
  void check_locked();
  void call_roll_locked();
  std::string late_text_locked(const std::string& whom) const;
  std::string describe_locked(const char* call, ncclResult_t status) const;

  /// What this rank waited for too long.
  struct LateSum {
    std::string collective;
    int64_t step = 0;
  };

  Communicator& control_;
  const int rank_;
  const int ranks_;
  const std::string host_;
  const double wait_limit_;
  int device_ = 0;
  ncclComm_t comm_ = nullptr;  // null once aborted
  size_t started_ = 0;         // sums that were enqueued, for messages
  size_t last_count_ = 0;
  std::mutex mutex_;                       // guards all calls of NCCL and the following members
  std::array<Mark, 2> marks_;              // of watch(): one that is waited for, and the newest
  size_t watched_ = 0;                     // of marks_
  WaitClock since_;                        // the watched mark is waited for
  std::string failure_;                    // "" while there is none
  std::optional<LateSum> late_;            // the failure is this one
  bool remote_ = false;                    // another rank detected it first
  bool reported_ = false;                  // the host has detected the failure
  bool stopping_ = false;                  // the thread must end
  std::condition_variable state_changed_;  // stopping_ or reported_ changed

  std::chrono::milliseconds patience_{0};  // of LateRanks, after the roll call

  std::thread watchdog_;
};

ncclDataType_t nccl_type(DType dtype);

/// Throws Error(kUnavailable) with NCCL's message for a failed call, named `call`.
void check_nccl(ncclResult_t status, const char* call);

}  // namespace ventris
