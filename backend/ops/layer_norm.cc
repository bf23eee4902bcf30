// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/layer_norm.h"

#include "backend/ops/kernels.h"
#include "backend/ops/op_checks.h"

namespace ventris {

void layer_norm_forward(Context& context, const LayerNormForwardArgs& args) {
  const int64_t rows = args.residual.rows;
  const int64_t d = args.residual.cols;
  const DType dtype = args.residual.dtype;
  const DType master = master_dtype(dtype);
  check_tensor(args.residual, rows, d, dtype, "residual");
  check_tensor(args.y, rows, d, dtype, "y");
  check_tensor(args.gamma, 1, d, master, "gamma");
  check_tensor(args.beta, 1, d, master, "beta");
  check_optional(args.x, rows, d, dtype, "x");
  check_optional(args.sum, rows, d, dtype, "sum");
  check_optional(args.mean, 1, rows, master, "mean");
  check_optional(args.rstd, 1, rows, master, "rstd");
  check_dropout(args.dropout);
  VENTRIS_CHECK(args.x || !args.dropout.active(), "dropout of rate {} without x", args.dropout.rate);
  VENTRIS_CHECK(args.x || !args.sum, "without x the sum is the residual; leave `sum` empty");
  kernels::layer_norm_forward(context, args);
}

void layer_norm_backward(Context& context, const LayerNormBackwardArgs& args) {
  const int64_t rows = args.d_y.rows;
  const int64_t d = args.d_y.cols;
  const DType dtype = args.d_y.dtype;
  const DType master = master_dtype(dtype);
  check_tensor(args.d_y, rows, d, dtype, "d_y");
  check_optional(args.d_sum_in, rows, d, dtype, "d_sum_in");
  check_tensor(args.sum, rows, d, dtype, "sum");
  check_tensor(args.mean, 1, rows, master, "mean");
  check_tensor(args.rstd, 1, rows, master, "rstd");
  check_tensor(args.gamma, 1, d, master, "gamma");
  check_tensor(args.d_residual, rows, d, dtype, "d_residual");
  check_optional(args.d_x, rows, d, dtype, "d_x");
  check_optional(args.d_gamma, 1, d, master, "d_gamma");
  check_optional(args.d_beta, 1, d, master, "d_beta");
  check_optional(args.d_bias, 1, d, master, "d_bias");
  check_dropout(args.dropout);
  VENTRIS_CHECK(args.d_x || !args.dropout.active(), "dropout of rate {} without d_x", args.dropout.rate);
  VENTRIS_CHECK(args.d_x || !args.d_bias, "d_bias without d_x");
  VENTRIS_CHECK(args.d_x.data != args.d_residual.data || !args.dropout.active(),
                "with dropout d_x and d_residual differ and cannot share memory");
  kernels::layer_norm_backward(context, args);
}

}  // namespace ventris
