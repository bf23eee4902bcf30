#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/tensor.h"

namespace ventris {

class Communicator;
class Context;

/// A part of the training state of which every rank holds a copy with the same bits.
struct Replica {
  std::string name;  // for people: "parameters"
  Tensor values;     // contiguous, on the context's device
};

/// What to do about a rank whose copy differs.
enum class OnDivergence {
  kStop,    // end the job
  kRepair,  // give it the copy of the others, where more than half of all ranks agree; else end the job
};

/// A copy that was replaced.
struct Repair {
  std::string name;
  std::vector<int> ranks;  // that held other bits
  std::string text;        // which, with their hosts, and whose copy they have now
};

/// Compares the XXH3-128 of each part over the ranks; all ranks call it and return the same, nothing where
/// all agree. Throws Error(kRanksDisagree), the same on every rank, naming for each part that differs the
/// ranks with their hosts and `step`, if it is to stop, if no more than half of the ranks agree, or if a copy
/// differs still after it was replaced.
std::vector<Repair> check_replicas(Context& context, Communicator& communicator, int64_t step,
                                   const std::vector<Replica>& parts, OnDivergence on_divergence);

/// Makes a contiguous range, on the device of every rank, that of rank `root`, in pieces.
void copy_from_rank(Context& context, Communicator& communicator, int root, Tensor range);

}  // namespace ventris
