// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/device/context.h"

namespace ventris {

/// c = op(a) op(b) [+ bias] [then ReLU], or c += op(a) op(b) with `accumulate`.
/// a, b: T; on the CPU, where sums_in_one_chain(kBF16), also a of f32 with T of bf16 (gradients of logits).
/// c: T, or master_dtype(T) (weight gradients). Accumulation in f32 (f64 for f64). On CUDA factors
/// in f32 are rounded to TF32 only after use_tf32() (backend/ops/gemm_choices.h), and a bias to the dtype of
/// c. The sum over k is cut at fixed places: on the CPU they depend on the shapes alone; on CUDA also on the
/// algorithm, which is chosen once for a shape and kept (backend/cuda/gemm_plans.cuh).
struct GemmArgs {
  ConstTensor a;  // [m, k], or [k, m] with transpose_a
  ConstTensor b;  // [k, n], or [n, k] with transpose_b
  Tensor c;       // [m, n]
  bool transpose_a = false;
  bool transpose_b = false;
  ConstTensor bias = {};  // [1, n] of master_dtype(T), on CUDA also of c's; or empty; not with accumulate
  bool relu = false;      // not with accumulate; on CUDA NaN may become 0, as in cuBLASLt
  bool accumulate = false;
  /// [1, n] of c's dtype, overwritten by the column sums of b, which is not transposed. Only on CUDA, where
  /// cuBLASLt has such a product; not with bias and ReLU.
  Tensor column_sums = {};
};

void gemm(Context& context, const GemmArgs& args);

/// Whether every element of a product on the CPU is one chain of multiply-adds in order of k, so that its
/// bits do not depend on where a product is cut: all but bf16 where oneDNN has products of it.
bool sums_in_one_chain(DType dtype);

}  // namespace ventris
