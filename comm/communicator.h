#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/error.h"
#include "backend/tensor.h"

namespace ventris {

class Context;
class MpiEnvironment;
struct TreeSum;

/// A collective failed, or was not complete in time, as some rank took no part in it.
class LateRanks : public Error {
 public:
  LateRanks(const std::string& message, std::chrono::milliseconds patience)
      : Error(ExitCode::kUnavailable, message), patience_(patience) {}
  /// How long this rank leaves it to another to end the job.
  std::chrono::milliseconds patience() const { return patience_; }

 private:
  std::chrono::milliseconds patience_;
};

/// The ranks of a job. Collectives are called by all ranks in the same order, from one thread at a time. A
/// failure of the transport throws Error(kUnavailable) naming the collective.
class Communicator {
 public:
  virtual ~Communicator() = default;

  /// From now on a collective that waits for other ranks for longer throws LateRanks, which names it, the
  /// step and, where they are known, the ranks that did not come. 0, as at first: waits last for ever.
  void limit_waits(double seconds) { wait_limit_ = seconds; }
  double wait_limit() const { return wait_limit_; }
  /// The step of training that is under way, for messages.
  void set_step(int64_t step) { step_ = step; }
  int64_t step() const { return step_; }

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Length of a range that is worth a reduction of its own while there is other work to do.
  virtual int64_t bucket_bytes() const { return int64_t{4} << 20; }

  /// data = sum over ranks, the same bits on every rank. f32, f64, or bf16, in which two numbers are added in
  /// f32 and the sum is rounded to the nearest, ties to even; contiguous.
  virtual void all_reduce_sum(Tensor data) = 0;
  /// Begins all_reduce_sum of a range that nobody touches before finish_reductions(); several may be under
  /// way.
  virtual void start_all_reduce_sum(Tensor data) = 0;
  /// Begins a sum in the order of a tree (comm/tree_sum.h): a reduction like those above. All ranks begin the
  /// same ones in the same order; at most kMaxTreeSums are under way.
  virtual void start_tree_sum(const TreeSum& sum) = 0;
  static constexpr int kMaxTreeSums = 8192;
  /// Lets reductions under way go on; cheap, called often, and after the device was given sums by the replay
  /// of a graph: the limit on waits counts from the first call after that.
  virtual void progress() = 0;
  virtual void finish_reductions() = 0;
  /// Ends reductions under way, without results, on a device that would wait for them for ever: for a rank
  /// that leaves with an exception, before it frees memory of the device.
  virtual void abandon() {}

  /// Tells the other ranks, once and without waiting for them, that this one was asked to stop: for ranks
  /// that compute and come to no collective for long.
  virtual void pass_stop_on() {}
  /// Whether another rank has told so. Cheap.
  virtual bool stop_was_passed_on() { return false; }
  /// Waits for what pass_stop_on() sent on that many ranks, this one perhaps among them, which all ranks have
  /// agreed on since. Then it is as if none had told, unless `ranks` is 0.
  virtual void receive_stops(int /*ranks*/) {}

  virtual void barrier() = 0;
  /// The bytes of rank `root` on every rank.
  virtual std::string broadcast(const std::string& bytes, int root) = 0;
  /// The bytes of every rank, in rank order, on every rank.
  virtual std::vector<std::string> all_gather(const std::string& bytes) = 0;

 private:
  double wait_limit_ = 0.0;
  int64_t step_ = 0;
};

/// What LateRanks says: a rank of `ranks` waited `seconds` in `collective` for `whom`; `step` as in
/// set_step().
std::string late_message(int rank, int ranks, double seconds, const std::string& collective, int64_t step,
                         const std::string& whom);

/// One rank without a transport.
std::unique_ptr<Communicator> make_self_communicator();
/// MPI_COMM_WORLD where it holds several ranks, else make_self_communicator().
std::unique_ptr<Communicator> make_communicator(const MpiEnvironment& environment);

/// What sums gradients over the ranks on the device of `context`: null where `control` serves (the CPU, or
/// one rank), else NCCL, started over `control`. Its sums take DEVICE memory and come after the
/// work that the context was given before; finish_reductions() makes the work that the context is given later
/// wait for them, and the host does not wait, so that all of it can be captured in a CUDA graph. The other
/// collectives are those of `control`. A failure of a peer or of the network is noticed while the host waits
/// for the device too: it ends the sums under way, whose results are then worth nothing, and the next call of
/// any function here throws Error(kUnavailable); call progress() before such results go into a file. The
/// communicator must outlive the graphs that hold its sums; both arguments must outlive it. All ranks call
/// it. Throws Error(kUnavailable) on every rank where two of them share a device, Error(kRanksDisagree) where
/// their versions of NCCL differ.
std::unique_ptr<Communicator> make_device_communicator(Communicator& control, Context& context);

/// NCCL with its version, or that there is none.
std::string nccl_library();

/// Compares `value` on all ranks and throws Error(kRanksDisagree), on every rank, naming `key`, the first
/// rank that differs from rank 0 and both values.
void check_equal_on_all_ranks(Communicator& communicator, const std::string& key, const std::string& value);

}  // namespace ventris
