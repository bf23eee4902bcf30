#pragma once

#include "backend/packed_gemm.h"

/// Matrices of Packing::kInt8. What they do is said of packed_gemm().
namespace ventris {

void int8_gemm_cpu(Context& context, const PackedGemmArgs& args);

}  // namespace ventris
