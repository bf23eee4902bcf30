// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/linear_backward.h"

#include "backend/cuda/linear_backward.h"
#include "backend/ops/gemm.h"
#include "backend/ops/op_checks.h"

namespace ventris {

void linear_backward(Context& context, const LinearBackwardArgs& args) {
  const DType dtype = args.d_y.dtype;
  check_tensor(args.x, args.d_y.rows, args.d_weight.rows, dtype, "x");
  check_tensor(args.d_weight, args.x.cols, args.d_y.cols, master_dtype(dtype), "d_weight");
  check_tensor(args.d_bias, 1, args.d_y.cols, master_dtype(dtype), "d_bias");
  const GemmArgs product = {
      .a = args.x, .b = args.d_y, .c = args.d_weight, .transpose_a = true, .accumulate = true};
  if constexpr (kHasCuda) {
    if (context.device() == Device::kCuda && linear_backward_cuda(context, args, product)) return;
  }
  bias_backward(
      context,
      {.d_y = args.d_y, .d_bias = args.d_bias, .columns = args.columns, .sums_later = args.sums_later});
  gemm(context, product);
}

}  // namespace ventris
