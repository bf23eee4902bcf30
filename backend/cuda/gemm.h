// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "backend/ops/gemm.h"

namespace ventris {

/// Requires checked arguments (ops/gemm.cc) and m, n > 0.
void gemm_cuda(Context& context, const GemmArgs& args);

/// Whether the product, which has column_sums, is to be done: cuBLASLt has it, and it was measured to be
/// faster than `otherwise`, which does the same in another way. Recorded as in backend/ops/gemm_choices.h;
/// without a record and without timing false.
bool gemm_sums_columns_cuda(Context& context, const GemmArgs& args,
                            const std::function<void(const GemmArgs&)>& otherwise);

}  // namespace ventris
