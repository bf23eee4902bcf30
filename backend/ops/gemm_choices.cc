// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/gemm_choices.h"

#include "backend/cuda/gemm_choices.h"
#include "backend/device/context.h"
#include "backend/device/has_cuda.h"

namespace ventris {

void use_tf32([[maybe_unused]] Context& context, [[maybe_unused]] bool use) {
  if constexpr (kHasCuda) {
    if (context.device() == Device::kCuda) use_tf32_cuda(context, use);
  }
}

std::string gemm_choices(Context& context) {
  if constexpr (kHasCuda) {
    if (context.device() == Device::kCuda) return gemm_choices_cuda(context);
  }
  return "";
}

bool prefer_gemm_choices(Context& context, const std::string& choices) {
  if (choices.empty()) return true;
  if constexpr (kHasCuda) {
    if (context.device() == Device::kCuda) return prefer_gemm_choices_cuda(context, choices);
  }
  return false;
}

void end_gemm_tuning(Context& context) {
  if constexpr (kHasCuda) {
    if (context.device() == Device::kCuda) end_gemm_tuning_cuda(context);
  }
}

}  // namespace ventris
