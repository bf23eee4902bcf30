#pragma once

#include <nccl.h>

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>

namespace ventris {

/// A communicator of NCCL that no rank waits in for ever. Its calls never block (NCCL's own non-blocking
/// mode) and are polled until they are done, with a limit on the time. A thread looks for errors that come
/// while the device works: it then aborts the communicator, which ends the kernels that wait for a lost peer,
/// so that the host gets out of its wait for the device and meets the error in its next call here. Where it
/// meets none in some seconds, because it waits for a rank that waits in turn, the thread ends the process
/// with the message.
class NcclLink {
 public:
  /// Joins `ranks` ranks, each on the current CUDA device of its thread. Throws Error(kUnavailable) where
  /// that fails or takes minutes.
  NcclLink(const ncclUniqueId& id, int rank, int ranks);
  /// Requires that the sums are done, unless an exception is on its way.
  ~NcclLink();
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

  /// Enqueues data = sum over ranks. All ranks enqueue the same sums in the same order.
  void all_reduce_sum(void* data, size_t count, ncclDataType_t type, cudaStream_t stream);
  /// Throws Error(kUnavailable) if the communicator has failed.
  void check();
  /// Ends the sums under way, without results, for a rank that leaves with an exception.
  void abandon();

 private:
  void settle(ncclResult_t status, const char* call);
  void watch();
  void poll_locked();
  void give_up_locked(const std::string& what);
  void check_locked();
  std::string describe_locked(const char* call, ncclResult_t status) const;

  const int rank_;
  const int ranks_;
  int device_ = 0;
  ncclComm_t comm_ = nullptr;  // null once aborted
  size_t started_ = 0;         // sums that were enqueued, for messages
  size_t last_count_ = 0;
  std::mutex mutex_;                   // guards all calls of NCCL and what follows
  std::string failure_;                // "" while all is well
  bool told_ = false;                  // the host has met the failure
  bool stopping_ = false;              // the thread is to end
  std::condition_variable stop_word_;  // stopping_ or told_ changed
  std::thread watchdog_;
};

/// Throws Error(kUnavailable) with NCCL's own words for a call, named `call`, that did not succeed.
void check_nccl(ncclResult_t status, const char* call);

}  // namespace ventris
