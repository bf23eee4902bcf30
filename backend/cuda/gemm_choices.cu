// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/gemm_choices.h"

#include "backend/cuda/gemm_plans.cuh"
#include "backend/device/context.h"
#include "backend/device/context_cuda.h"

namespace ventris {

void use_tf32_cuda(Context& context, bool use) {
  context.cuda().gemm_plans->use_tf32(use);
}

std::string gemm_choices_cuda(Context& context) {
  return context.cuda().gemm_plans->choices();
}

bool prefer_gemm_choices_cuda(Context& context, const std::string& choices) {
  return context.cuda().gemm_plans->prefer(choices);
}

void end_gemm_tuning_cuda(Context& context) {
  context.cuda().gemm_plans->end_tuning();
}

}  // namespace ventris
