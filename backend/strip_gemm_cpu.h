// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/gemm.h"

namespace ventris {

/// Whether strip_gemm_cpu() computes a product: a is transposed, b is not, c is f32, and there is neither a
/// bias nor ReLU, as in gradients of weights.
bool is_for_strips(const GemmArgs& args);

/// chained_gemm_cpu() of such a product, of f32 or bf16, or of f32 and bf16. Takes less time where a is f32,
/// has many columns, and its rows are an odd number of lines of the cache apart: then none of it is copied.
void strip_gemm_cpu(Context& context, const GemmArgs& args);

}  // namespace ventris
