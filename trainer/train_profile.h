// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/device/context.h"
#include "model/flop_count.h"
#include "model/transformer.h"
#include "trainer/precision.h"

namespace ventris {

/// The time of the phases of training steps, on one rank. Operations are those of the model
/// (training_flops()): padding, norms and the like do not count.
struct TrainProfile {
  struct Row {
    std::string name;
    double seconds = 0.0;  // a step
    double flops = 0.0;    // a step; 0 if a phase has no matrix products
  };
  int64_t steps = 0;  // that were measured
  std::vector<Row> phases;
  double step_seconds = 0.0;
  double step_flops = 0.0;

  /// A product of two square matrices in the run's precision.
  Precision product_precision = Precision::kF32;
  int64_t product_size = 0;  // rows; 0: not enough memory
  double product_flops_per_second = 0.0;

  double step_flops_per_second() const { return step_seconds > 0.0 ? step_flops / step_seconds : 0.0; }
  /// Model FLOP utilization: the rate of the steps over that of the product.
  double mfu() const { return product_size > 0 ? step_flops_per_second() / product_flops_per_second : 0.0; }
  /// The time of a step outside all phases.
  double other_seconds() const;
};

/// From the measurements of the context. `flops` are those of all measured steps. Multiplies matrices in the
/// precision, that of the run on the context, for about half a second.
TrainProfile train_profile(Context& context, const FlopCount& flops, Precision precision);
/// "12.3 GFLOP/s" or "389.1 TFLOP/s".
std::string flop_rate_text(double flops_per_second);
/// As text for the user.
std::string profile_table(const TrainProfile& profile);

}  // namespace ventris
