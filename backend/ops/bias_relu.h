// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/device/context.h"

namespace ventris {

/// Backward of y = ReLU(x w + bias) up to the GEMM: d_y is overwritten by d_y * (y > 0), and d_bias += its
/// column sums.
struct BiasReluBackwardArgs {
  Tensor d_y;               // [rows, n] T, in and out
  ConstTensor y;            // [rows, n] T
  Tensor d_bias;            // [1, n] master, or empty
  bool sums_later = false;  // d_bias is complete only after complete_column_sums (backend/ops/column_sums.h)
};
void bias_relu_backward(Context& context, const BiasReluBackwardArgs& args);

/// The columns of a matrix that lie in groups: `count` columns in every `period`, from column `first` on.
struct ColumnGroups {
  int64_t first = 0;
  int64_t count = 0;
  int64_t period = 0;

  int64_t groups(int64_t cols) const { return (cols - first + period - 1) / period; }
};

/// Backward of a bias alone: d_bias += column sums of d_y.
struct BiasBackwardArgs {
  ConstTensor d_y;            // [rows, n] T
  Tensor d_bias;              // [1, n] master
  ColumnGroups columns = {};  // others are neither read nor written; a count of 0: all columns
  bool sums_later = false;    // as above
};
void bias_backward(Context& context, const BiasBackwardArgs& args);

}  // namespace ventris
