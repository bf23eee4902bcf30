#pragma once

#include "backend/gemm.h"

namespace ventris {

/// gemm() in f32 by packed_gemm(): every element is one chain of fused multiply-adds in order of k, from zero
/// or, with `accumulate`, from what c holds. So its bits depend on its row of op(a) and its column of op(b)
/// alone: not on how many rows or columns there are, nor on the threads, nor on the width of the processor's
/// vectors.
void chained_gemm_cpu(Context& context, const GemmArgs& args);

}  // namespace ventris
