// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/device/tensor.h"
#include "backend/ops/bias_relu.h"
#include "model/pass.h"
#include "model/transformer_parameters.h"

namespace ventris {

/// y = x W + b, optionally followed by ReLU, and the parts of its backward pass:
///   dW += x^T d_y;  db += column sums of d_y;  d_x = d_y W^T
/// dW and db only in columns that are not frozen.
class Linear {
 public:
  explicit Linear(const LinearIds& ids) : ids_(ids) {}

  /// x: [rows, in] T; y: [rows, out] T.
  void forward(Pass& pass, ConstTensor x, Tensor y, bool relu = false) const;

  void backward_weight(Pass& pass, ConstTensor x, ConstTensor d_y) const;
  /// dW, and db only in `columns`.
  ///
  /// The bias of attention keys is left out everywhere: it adds the same number to all scores of a query,
  /// to which the softmax is invariant, so its gradient is zero. A computed gradient would be rounding noise,
  /// which Adam scales up to whole steps.
  void backward_parameters(Pass& pass, ConstTensor x, ConstTensor d_y,
                           const ColumnGroups& columns = {}) const;
  /// Backward of y = ReLU(x W + b) up to the GEMM: masks d_y in place and adds to db.
  void backward_relu_bias(Pass& pass, ConstTensor y, Tensor d_y) const;
  /// d_x = d_y W^T, or d_x += d_y W^T with `accumulate`.
  void backward_input(Pass& pass, ConstTensor d_y, Tensor d_x, bool accumulate) const;

  ParameterId bias() const { return ids_.bias; }

 private:
  void backward_bias(Pass& pass, ConstTensor d_y, const ColumnGroups& columns) const;

  LinearIds ids_;
};

}  // namespace ventris
