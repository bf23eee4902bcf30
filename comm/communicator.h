// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/device/error.h"
#include "backend/device/tensor.h"

namespace ventris {

class Context;
class MpiEnvironment;
struct TreeMessages;
struct TreeSum;

/// A collective failed, or timed out because a rank did not take part.
class LateRanks : public Error {
 public:
  LateRanks(const std::string& message, std::chrono::milliseconds patience)
      : Error(ExitCode::kUnavailable, message), patience_(patience) {}
  /// The time in which this rank leaves it to another to end the job.
  std::chrono::milliseconds patience() const { return patience_; }

 private:
  std::chrono::milliseconds patience_;
};

/// The ranks of a job. Collectives are called by all ranks in the same order, from one thread at a time. A
/// failure of the transport throws Error(kUnavailable) naming the collective.
class Communicator {
 public:
  virtual ~Communicator() = default;

  /// Sets the limit in seconds after which a waiting collective throws LateRanks, which names the collective,
  /// the step and, if known, the missing ranks. 0 (the default): no limit.
  void limit_waits(double seconds) { wait_limit_ = seconds; }
  double wait_limit() const { return wait_limit_; }
  /// The current step of training, for messages.
  void set_step(int64_t step) { step_ = step; }
  int64_t step() const { return step_; }
  /// The time that this rank has spent waiting for others in collectives.
  double waited_seconds() const { return waited_seconds_; }

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Of each rank the number of its host, any numbers. The same on every rank.
  virtual std::vector<int> hosts() const { return std::vector<int>(static_cast<size_t>(size()), 0); }
  /// Length of a range that is large enough for a separate reduction overlapped with other work.
  virtual int64_t bucket_bytes() const { return kBucketBytes; }
  static constexpr int64_t kBucketBytes = int64_t{4} << 20;
  /// Between devices each sum is a kernel on every rank, so it must be large enough for the cost of a launch.
  static constexpr int64_t kDeviceBucketBytes = int64_t{16} << 20;

  /// data = sum over ranks, the same bits on every rank. f32, f64, or bf16, in which two numbers are added in
  /// f32 and the sum is rounded to the nearest, ties to even; contiguous.
  virtual void all_reduce_sum(Tensor data) = 0;
  /// Starts all_reduce_sum of a range that must not be accessed before finish_reductions(); several may be
  /// pending.
  virtual void start_all_reduce_sum(Tensor data) = 0;
  /// Starts a sum in the order of a tree (comm/tree_sum.h): a reduction like those above. All ranks start the
  /// same ones in the same order; at most kMaxTreeSums may be pending.
  virtual void start_tree_sum(const TreeSum& sum) = 0;
  static constexpr int kMaxTreeSums = 8192;
  /// Starts sending and receiving: a reduction like those above. For each pair of ranks both start the same
  /// messages in the same order.
  virtual void start_exchange(const TreeMessages& messages) = 0;
  /// Starts a sum of [1, size() * n] elements, of which each rank gets the n from rank() * n on; the others
  /// are then unspecified: a reduction like those above. If not overridden, all ranks get all.
  virtual void start_reduce_scatter_sum(Tensor data) { start_all_reduce_sum(data); }
  /// Starts sending, of each of these ranges of [1, size() * n] elements, the n from rank() * n on to all
  /// ranks: a reduction like those above. If not overridden, each rank sends to each.
  virtual void start_all_gather(const std::vector<Tensor>& ranges);
  /// Makes pending reductions progress; cheap. Must be called often, and after the replay of a graph with
  /// sums: the timeout counts from the first call after that.
  virtual void progress() = 0;
  virtual void finish_reductions() = 0;
  /// Aborts pending reductions on a device that would wait for them forever: for a rank that leaves with an
  /// exception, before it frees device memory.
  virtual void abandon() {}

  /// Notifies the other ranks, once and without waiting, that this rank received a stop request: for ranks
  /// that compute without a collective for a long time.
  virtual void pass_stop_on() {}
  /// Whether such a notification has arrived. Cheap.
  virtual bool stop_was_passed_on() { return false; }
  /// Receives the notifications of pass_stop_on() from `ranks` ranks (possibly including this one), a number
  /// on which all ranks have agreed, and resets the state; does nothing if `ranks` is 0.
  virtual void receive_stops(int /*ranks*/) {}

  struct Attendance {
    bool first;          // this rank is the first that is present
    std::string absent;  // "rank 1 on a (pid 7, stopped), which did not arrive"; "" if all are present
  };
  /// After a failure that all ranks detect within a second, once: who calls this too or waits in a
  /// collective.
  virtual Attendance call_roll() { return {.first = rank() == 0, .absent = ""}; }

  virtual void barrier() = 0;
  /// The bytes of rank `root` on every rank.
  virtual std::string broadcast(const std::string& bytes, int root) = 0;
  /// The bytes of every rank, in rank order, on every rank.
  virtual std::vector<std::string> all_gather(const std::string& bytes) = 0;
  /// The bytes of every rank, in rank order, on rank `root`, on which they must be less than 2 GiB in all;
  /// nothing on the others. If not overridden, takes the time of all_gather().
  virtual std::vector<std::string> gather(const std::string& bytes, int root);

 protected:
  double waited_seconds_ = 0.0;

 private:
  double wait_limit_ = 0.0;
  int64_t step_ = 0;
};

/// The message of LateRanks: a rank of `ranks` waited `seconds` in `collective` for `whom`; `step` as in
/// set_step().
std::string late_message(int rank, int ranks, double seconds, const std::string& collective, int64_t step,
                         const std::string& whom);

/// One rank without a transport.
std::unique_ptr<Communicator> make_self_communicator();
/// MPI_COMM_WORLD if it has several ranks, otherwise make_self_communicator().
std::unique_ptr<Communicator> make_communicator(const MpiEnvironment& environment);

/// The communicator for sums of gradients on the device of `context`: null if `control` is sufficient (the
/// CPU, or one rank), otherwise NCCL, initialised through `control`. Its sums take DEVICE memory and run
/// after the work enqueued before; finish_reductions() makes work enqueued later wait for them, but not the
/// host, so that all of it can be captured in a CUDA graph. The other collectives are those of `control`. A
/// failure of a peer or of the network is also detected while the host waits for the device: it aborts the
/// pending sums, whose results are then invalid, and the next call of any function here throws
/// Error(kUnavailable); call progress() before such results are written to a file. The communicator must
/// outlive the graphs that hold its sums; both references must outlive it. All ranks must
/// call it. Throws Error(kUnavailable) on every rank if two of them share a device, Error(kRanksDisagree) if
/// their versions of NCCL differ.
std::unique_ptr<Communicator> make_device_communicator(Communicator& control, Context& context);

/// Compares `value` on all ranks and throws Error(kRanksDisagree), on every rank, naming `key`, the first
/// rank that differs from rank 0 and both values.
void check_equal_on_all_ranks(Communicator& communicator, const std::string& key, const std::string& value);

}  // namespace ventris
