// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "backend/device/context.h"
#include "backend/ops/update_plan.h"

namespace ventris {

/// Exponential moving average of parameters:
///   average += (1 - d) * (value - average),  d = min(decay, (1 + updates) / (10 + updates))
/// The smaller d of the first updates reduces the weight of the start of training quickly. A skipped step
/// changes nothing.
struct MovingAverageArgs {
  ConstTensor value;           // [1, n] master, after the update
  Tensor average;              // [1, n] master
  double decay;                // at least 0 and below 1
  const StepOutcome* outcome;  // on the device
};
void moving_average(Context& context, const MovingAverageArgs& args);

/// Swaps the contents of two ranges of one dtype that do not overlap.
struct ExchangeArgs {
  Tensor a;  // [1, n] master
  Tensor b;  // [1, n] master
};
void exchange(Context& context, const ExchangeArgs& args);

/// 1 - d of moving_average().
constexpr double moving_average_share(double decay, int64_t updates) {
  const double start = static_cast<double>(1 + updates) / static_cast<double>(10 + updates);
  return 1.0 - (decay < start ? decay : start);
}

}  // namespace ventris
