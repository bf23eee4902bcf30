// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/packed_gemm.h"

namespace ventris {

/// packed_gemm_cpu() without the multiplications by zeros of a, with the same bits, where this is the faster:
/// weights of which all are finite, in f32, times what ReLU left. False if it computed nothing.
bool sparse_packed_gemm_cpu(Context& context, const PackedGemmArgs& args);

}  // namespace ventris
