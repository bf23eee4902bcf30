// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/bias_relu.h"

#include "backend/ops/kernels.h"
#include "backend/ops/op_checks.h"

namespace ventris {

void bias_relu_backward(Context& context, const BiasReluBackwardArgs& args) {
  const DType dtype = args.d_y.dtype;
  check_tensor(args.d_y, args.d_y.rows, args.d_y.cols, dtype, "d_y");
  check_tensor(args.y, args.d_y.rows, args.d_y.cols, dtype, "y");
  check_optional(args.d_bias, 1, args.d_y.cols, master_dtype(dtype), "d_bias");
  kernels::bias_relu_backward(context, args);
}

void bias_backward(Context& context, const BiasBackwardArgs& args) {
  const int64_t cols = args.d_y.cols;
  check_tensor(args.d_y, args.d_y.rows, cols, args.d_y.dtype, "d_y");
  check_tensor(args.d_bias, 1, cols, master_dtype(args.d_y.dtype), "d_bias");
  if (cols == 0) return;
  BiasBackwardArgs full = args;
  ColumnGroups& columns = full.columns;
  if (columns.count == 0) columns = {.first = 0, .count = cols, .period = cols};
  VENTRIS_CHECK(columns.first >= 0 && columns.count > 0 && columns.period >= columns.count &&
                    columns.first < cols && (cols - columns.first - 1) % columns.period + 1 >= columns.count,
                "groups of {} columns in every {} from column {} on do not fit {} columns", columns.count,
                columns.period, columns.first, cols);
  if constexpr (kHasCuda) {
    if (context.device() == Device::kCuda) return bias_backward_cuda(context, full);
  }
  for (int64_t begin = columns.first; begin < cols; begin += columns.period) {
    cpu_kernels().bias_backward(context, {.d_y = args.d_y.col_range(begin, columns.count),
                                          .d_bias = args.d_bias.col_range(begin, columns.count)});
  }
}

}  // namespace ventris
