// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/update_plan.h"

#include "backend/cpu/kernel_table.h"
#include "backend/cuda/kernels.h"
#include "backend/ops/op_checks.h"

namespace ventris {

void plan_update(Context& context, const PlanUpdateArgs& args) {
  VENTRIS_CHECK(args.loss_sums != nullptr && args.sum_of_squares != nullptr && args.learning_rate != nullptr,
                "loss_sums, sum_of_squares or learning_rate is missing");
  VENTRIS_CHECK(args.updates != nullptr && args.scalars != nullptr && args.outcome != nullptr,
                "updates, scalars or outcome are missing");
  VENTRIS_CHECK(args.clip_norm >= 0.0, "clip_norm is {}, expected at least 0", args.clip_norm);
  if constexpr (kHasCuda) {
    if (context.device() == Device::kCuda) return plan_update_cuda(context, args);
  }
  cpu_kernels().plan_update(args);
}

}  // namespace ventris
