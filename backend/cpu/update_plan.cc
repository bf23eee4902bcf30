// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "backend/device/elementary.h"
#include "backend/ops/update_plan.h"

namespace ventris {

void plan_update_cpu(Context& /*context*/, const PlanUpdateArgs& args) {
  const double norm = std::sqrt(*args.sum_of_squares);
  const bool skipped =
      !std::isfinite(args.loss_sums[0]) || !std::isfinite(args.loss_sums[1]) || !std::isfinite(norm);
  if (!skipped) ++*args.updates;
  const auto correction = [&](float beta) {
    return static_cast<float>(1.0 - integer_power(static_cast<double>(beta), *args.updates));
  };
  *args.scalars = {.learning_rate = *args.learning_rate,
                   .gradient_scale = args.clip_norm > 0.0 && norm > args.clip_norm
                                         ? static_cast<float>(args.clip_norm / norm)
                                         : 1.0F,
                   .bias_correction1 = correction(args.beta1),
                   .bias_correction2 = correction(args.beta2),
                   .skip = skipped ? 1 : 0};
  *args.outcome = {.loss = args.loss_sums[0],
                   .nll = args.loss_sums[1],
                   .gradient_norm = norm,
                   .updates = *args.updates,
                   .skipped = skipped ? 1 : 0};
}

}  // namespace ventris
