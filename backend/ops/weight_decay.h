// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "backend/device/context.h"
#include "backend/device/flat_range.h"
#include "backend/ops/adam.h"

namespace ventris {

/// Decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2), to be followed by Adam:
///   value *= 1 - learning_rate * decay
/// in the ranges. As in PyTorch's AdamW and fairseq, the decay is multiplied by the learning rate of the
/// step, in the paper only by its schedule. With scalars->skip nothing is read or written.
struct WeightDecayArgs {
  Tensor values;                      // [1, n] master
  std::span<const FlatRange> ranges;  // of elements of the values, that do not overlap
  double decay;                       // at least 0
  const AdamScalars* scalars;         // on the device
};
void weight_decay(Context& context, const WeightDecayArgs& args);

}  // namespace ventris
