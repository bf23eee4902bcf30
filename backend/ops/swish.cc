// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/swish.h"

#include "backend/ops/kernels.h"
#include "backend/ops/op_checks.h"

namespace ventris {

void swish_forward(Context& context, const SwishForwardArgs& args) {
  const DType dtype = args.y.dtype;
  check_tensor(args.y, args.y.rows, args.y.cols, dtype, "y");
  check_tensor(args.x, args.y.rows, args.y.cols, dtype, "x");
  kernels::swish_forward(context, args);
}

void swish_backward(Context& context, const SwishBackwardArgs& args) {
  const DType dtype = args.d_y.dtype;
  check_tensor(args.d_y, args.d_y.rows, args.d_y.cols, dtype, "d_y");
  check_tensor(args.x, args.d_y.rows, args.d_y.cols, dtype, "x");
  kernels::swish_backward(context, args);
}

}  // namespace ventris
