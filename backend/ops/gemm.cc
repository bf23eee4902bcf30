// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/gemm.h"

#include "backend/cpu/gemm_onednn.h"
#include "backend/ops/kernels.h"
#include "backend/ops/op_checks.h"

namespace ventris {

void gemm(Context& context, const GemmArgs& args) {
  const int64_t m = args.transpose_a ? args.a.cols : args.a.rows;
  const int64_t k = args.transpose_a ? args.a.rows : args.a.cols;
  const int64_t b_k = args.transpose_b ? args.b.cols : args.b.rows;
  const int64_t n = args.transpose_b ? args.b.rows : args.b.cols;
  const DType dtype = args.b.dtype;
  const bool wide_a = args.a.dtype == DType::kF32 && dtype == DType::kBF16 &&
                      context.device() == Device::kCpu && sums_in_one_chain(dtype);
  VENTRIS_CHECK(k == b_k && args.c.rows == m && args.c.cols == n,
                "a {} x {}{}, b {} x {}{}, c {} x {}: the shapes do not match", args.a.rows, args.a.cols,
                args.transpose_a ? " transposed" : "", args.b.rows, args.b.cols,
                args.transpose_b ? " transposed" : "", args.c.rows, args.c.cols);
  check_tensor(args.a, args.a.rows, args.a.cols, wide_a ? DType::kF32 : dtype, "a");
  check_tensor(args.b, args.b.rows, args.b.cols, dtype, "b");
  check_tensor(args.c, m, n, args.c.dtype == dtype ? dtype : master_dtype(dtype), "c");
  const bool rounded = context.device() == Device::kCuda && args.bias.dtype == args.c.dtype;
  check_optional(args.bias, 1, n, rounded ? args.c.dtype : master_dtype(dtype), "bias");
  VENTRIS_CHECK(!args.accumulate || (!args.bias && !args.relu),
                "bias and ReLU cannot be combined with accumulation");
  VENTRIS_CHECK(!args.column_sums, "linear_backward alone asks for column sums");
  if (m == 0 || n == 0) return;
  kernels::gemm(context, args);
}

bool sums_in_one_chain(DType dtype) {
  return dtype != DType::kBF16 || !library_multiplies_bf16();
}

}  // namespace ventris
