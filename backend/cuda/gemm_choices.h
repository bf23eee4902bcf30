// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ventris {

class Context;

/// As in backend/ops/gemm_choices.h, on CUDA.
void use_tf32_cuda(Context& context, bool use);
std::string gemm_choices_cuda(Context& context);
bool prefer_gemm_choices_cuda(Context& context, const std::string& choices);
void end_gemm_tuning_cuda(Context& context);

}  // namespace ventris
