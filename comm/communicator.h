#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/tensor.h"

namespace ventris {

class MpiEnvironment;

/// The ranks of a job. Collectives are called by all ranks in the same order, from one thread at a time. A
/// failure of the transport throws Error(kUnavailable) naming the collective.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// data = sum over ranks, the same bits on every rank. f32 or f64, contiguous.
  virtual void all_reduce_sum(Tensor data) = 0;
  /// Begins all_reduce_sum of a range that nobody touches before finish_reductions(); several may be under
  /// way.
  virtual void start_all_reduce_sum(Tensor data) = 0;
  /// Lets reductions under way go on; cheap, called often.
  virtual void progress() = 0;
  virtual void finish_reductions() = 0;

  virtual void barrier() = 0;
  /// The bytes of rank `root` on every rank.
  virtual std::string broadcast(const std::string& bytes, int root) = 0;
  /// The bytes of every rank, in rank order, on every rank.
  virtual std::vector<std::string> all_gather(const std::string& bytes) = 0;
};

/// One rank without a transport.
std::unique_ptr<Communicator> make_self_communicator();
/// MPI_COMM_WORLD where it holds several ranks, else make_self_communicator().
std::unique_ptr<Communicator> make_communicator(const MpiEnvironment& environment);

/// Compares `value` on all ranks and throws Error(kRanksDisagree), on every rank, naming `key`, the first
/// rank that differs from rank 0 and both values.
void check_equal_on_all_ranks(Communicator& communicator, const std::string& key, const std::string& value);

}  // namespace ventris
