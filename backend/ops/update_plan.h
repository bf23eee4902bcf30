// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "backend/device/context.h"
#include "backend/ops/adam.h"

namespace ventris {

/// The result of a training step, over all ranks.
struct StepOutcome {
  double loss;           // sums over the target tokens
  double nll;            //
  double gradient_norm;  // Euclidean, before clipping; not finite if a gradient is not
  int64_t updates;       // of the parameters so far
  int32_t skipped;       // 1: loss, nll or norm is not finite, so that the step changes nothing
};

/// Decides on the device whether a step updates the parameters, and with which scalars:
///   skipped = loss, nll or norm is not finite, norm = sqrt(sum_of_squares);  otherwise updates += 1 and
///   gradient_scale = clip_norm / norm if the norm exceeds clip_norm, otherwise 1
///   bias_correction_k = 1 - beta_k^updates, in f64
struct PlanUpdateArgs {
  const double* loss_sums;       // [2] loss and nll, summed over the ranks
  const double* sum_of_squares;  // [1] of the gradients
  const float* learning_rate;    // [1]
  double clip_norm = 0.0;        // 0: no clipping
  float beta1 = 0.9F;
  float beta2 = 0.98F;
  int64_t* updates;      // [1] read and written
  AdamScalars* scalars;  // [1] overwritten
  StepOutcome* outcome;  // [1] overwritten
};
void plan_update(Context& context, const PlanUpdateArgs& args);

}  // namespace ventris
