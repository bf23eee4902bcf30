// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/gemm.h"

namespace ventris {

/// chained_gemm_cpu() without the multiplications by zero, where so many elements of a factor are zero that
/// this is the faster: what ReLU left, and its gradient. The bits are those of all multiplications. False if
/// it computed nothing: too few zeros (estimated from some rows), a small product, or a factor that is not
/// finite and would make NaN of a zero.
bool sparse_gemm_cpu(Context& context, const GemmArgs& args);

}  // namespace ventris
