// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/packed_gemm.h"

namespace ventris {

/// packed_gemm_cpu() of factors in f32, without bias and ReLU, where `needed` [m, n], in f32 or bf16, is
/// positive. Other elements of c are computed, or left as they are.
void needed_gemm_cpu(Context& context, const PackedGemmArgs& args, const ConstTensor& needed);

}  // namespace ventris
