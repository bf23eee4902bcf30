#pragma once

#include "backend/packed_gemm.h"

namespace ventris {

/// Also writes c in bf16 if b is in f32.
void packed_gemm_cpu(Context& context, const PackedGemmArgs& args);

/// Floats that `m` columns take in strips of `depth`.
int64_t strips_size(int64_t m, int64_t depth);
/// Cuts a [k, m] in f32 or bf16 into strips of f32, one after another: each with 48 columns, row after row.
void copy_to_strips(Context& context, const ConstTensor& a, float* strips);
/// c = [c +] a^T b as packed_gemm() of f32, with strips of a for args.a.
void strip_gemm_cpu(Context& context, const float* strips, const PackedGemmArgs& args);

}  // namespace ventris
