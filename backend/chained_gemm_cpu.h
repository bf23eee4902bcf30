#pragma once

#include "backend/gemm.h"

namespace ventris {

/// gemm() of f32 or bf16 by packed_gemm() in f32: every element is one chain of fused multiply-adds in order
/// of k, from zero or, with `accumulate`, from what c holds, rounded to the dtype of c at its end. So its
/// bits depend on its row of op(a) and its column of op(b) alone: not on how many rows or columns there are,
/// nor on the threads, nor on the width of the processor's vectors.
void chained_gemm_cpu(Context& context, const GemmArgs& args);

}  // namespace ventris
