// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/device/context.h"
#include "backend/ops/bias_relu.h"

namespace ventris {

/// Backward of y = x w + bias for w and bias: d_weight += x^T d_y, d_bias += column sums of d_y.
///
/// On CUDA the product also sums the columns where both together were measured to take longer when it was
/// chosen; this choice is one of backend/ops/gemm_choices.h. The product writes the sums to memory of its
/// own, in f32, from which they are added to d_bias.
struct LinearBackwardArgs {
  ConstTensor x;              // [rows, in] T
  ConstTensor d_y;            // [rows, out] T
  Tensor d_weight;            // [in, out] master
  Tensor d_bias;              // [1, out] master
  ColumnGroups columns = {};  // of d_bias; others are neither read nor written; a count of 0: all columns
  bool sums_later = false;  // d_bias is complete only after complete_column_sums (backend/ops/column_sums.h)
};
void linear_backward(Context& context, const LinearBackwardArgs& args);

}  // namespace ventris
