// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/update_plan.h"

#include "backend/ops/kernels.h"
#include "backend/ops/op_checks.h"

namespace ventris {

void plan_update(Context& context, const PlanUpdateArgs& args) {
  VENTRIS_CHECK(args.loss_sums != nullptr && args.sum_of_squares != nullptr && args.learning_rate != nullptr,
                "loss_sums, sum_of_squares or learning_rate is missing");
  VENTRIS_CHECK(args.updates != nullptr && args.scalars != nullptr && args.outcome != nullptr,
                "updates, scalars or outcome are missing");
  VENTRIS_CHECK(args.clip_norm >= 0.0, "clip_norm is {}, expected at least 0", args.clip_norm);
  kernels::plan_update(context, args);
}

}  // namespace ventris
