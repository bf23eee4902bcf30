// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/ops/packed_gemm.h"

/// packed_gemm() for matrices of Packing::kInt8.
namespace ventris {

void int8_gemm_cpu(Context& context, const PackedGemmArgs& args);

}  // namespace ventris
