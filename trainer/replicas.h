// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/tensor.h"

namespace ventris {

class Communicator;
class Context;

/// A part of the training state that is replicated on every rank with the same bits.
struct Replica {
  std::string name;  // for messages: "parameters"
  Tensor values;     // contiguous, on the context's device
};

/// The action for a rank whose copy differs.
enum class OnDivergence {
  kStop,    // end the job
  kRepair,  // copy that of the others if more than half of all ranks agree; otherwise end the job
};

/// A copy that was replaced.
struct Repair {
  std::string name;
  std::vector<int> ranks;  // that held other bits
  std::string text;        // these ranks with their hosts, and the source of their new copy
};

/// Compares the bit_digest() of each part over the ranks; all ranks must call it and return the same, empty
/// if all agree. Throws Error(kRanksDisagree), the same on every rank, naming for each part that differs the
/// ranks with their hosts and `step`, for kStop, if no more than half of the ranks agree, or if a copy still
/// differs after it was replaced.
std::vector<Repair> check_replicas(Context& context, Communicator& communicator, int64_t step,
                                   const std::vector<Replica>& parts, OnDivergence on_divergence);

/// Copies a contiguous range on the device of rank `root` to all ranks, in pieces.
void copy_from_rank(Context& context, Communicator& communicator, int root, Tensor range);

}  // namespace ventris
