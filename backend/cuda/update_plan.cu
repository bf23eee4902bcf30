// SPDX-License-Identifier: Apache-2.0
#include <cfloat>
#include <cmath>

#include "backend/cuda/launch.cuh"
#include "backend/ops/update_plan.h"

namespace ventris {
namespace {

using namespace cuda;

__device__ inline bool is_finite_term(double x) {
  return fabs(x) <= DBL_MAX;
}

/// One thread in total.
__global__ void plan(PlanUpdateArgs args) {
  const double loss = args.loss_sums[0];
  const double nll = args.loss_sums[1];
  const double norm = sqrt(*args.sum_of_squares);
  const bool skipped = !is_finite_term(loss) || !is_finite_term(nll) || !is_finite_term(norm);
  const int64_t updates = *args.updates + (skipped ? 0 : 1);
  *args.updates = updates;
  const auto t = static_cast<double>(updates);
  const bool clips = args.clip_norm > 0.0 && norm > args.clip_norm;
  AdamScalars& scalars = *args.scalars;
  scalars.learning_rate = *args.learning_rate;
  scalars.gradient_scale = clips ? static_cast<float>(args.clip_norm / norm) : 1.0F;
  scalars.bias_correction1 = static_cast<float>(1.0 - pow(static_cast<double>(args.beta1), t));
  scalars.bias_correction2 = static_cast<float>(1.0 - pow(static_cast<double>(args.beta2), t));
  scalars.skip = skipped ? 1 : 0;
  StepOutcome& outcome = *args.outcome;
  outcome.loss = loss;
  outcome.nll = nll;
  outcome.gradient_norm = norm;
  outcome.updates = updates;
  outcome.skipped = skipped ? 1 : 0;
}

}  // namespace

void plan_update_cuda(Context& context, const PlanUpdateArgs& args) {
  launch({.name = "plan", .grid = 1, .block = 1}, stream_of(context), plan, args);
}

}  // namespace ventris
