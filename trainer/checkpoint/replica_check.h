// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/device/tensor.h"

namespace ventris {

class Communicator;
class Context;

/// A part of the training state that is replicated on every rank with the same bits.
struct Replica {
  std::string name;  // for messages: "parameters"
  Tensor values;     // contiguous, on the context's device
};

/// Compares the bit_digest() of each part over the ranks, all of which must call it. Throws
/// Error(kRanksDisagree), the same on every rank, naming for each part that differs the ranks with their
/// hosts and `step`.
void check_replicas(Context& context, Communicator& communicator, int64_t step,
                    const std::vector<Replica>& parts);

/// Copies a contiguous range on the device of rank `root` to all ranks, in pieces.
void copy_from_rank(Context& context, Communicator& communicator, int root, Tensor range);

}  // namespace ventris
