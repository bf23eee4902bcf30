// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/device/arena.h"
#include "backend/device/tensor.h"
#include "backend/ops/dropout.h"
#include "model/pass.h"
#include "model/transformer_parameters.h"

namespace ventris {

/// The activations between two sublayers in forward. A sublayer reads `input` and writes its output to
/// `branch`; the next norm adds it: sum = residual + dropout(branch), input = LayerNorm(sum). Post-norm
/// continues with residual = input, pre-norm with residual = sum.
struct ResidualStream {
  ConstTensor residual;     // [rows, d_model] T
  ConstTensor input;        // [rows, d_model] T
  Tensor branch = {};       // [rows, d_model] T, empty if no sublayer has run since the last norm, or if
                            // `residual` has its output
  DropoutKey dropout = {};  // of the branch
  ParameterId bias = -1;  // of the linear layer of the branch: the norm computes its gradient; -1: no branch
};

/// The gradients between two sublayers in backward. Between sublayers, post-norm holds the gradient of
/// ResidualStream::input in `residual`; pre-norm holds those of the residual in `residual` and of the branch
/// in `branch`.
struct GradientStream {
  Tensor residual;  // [rows, d_model] T
  Tensor branch;    // [rows, d_model] T
  Tensor input;     // [rows, d_model] T: scratch of a sublayer, and in pre-norm the gradient of its input
  Tensor wide;      // [rows, max(3 d_model, d_ff)] T: scratch of a sublayer

  /// Views of the first `rows` rows.
  GradientStream top(int64_t rows) const {
    return {residual.row_range(0, rows), branch.row_range(0, rows), input.row_range(0, rows),
            wide.row_range(0, rows)};
  }
  /// The first rows * cols elements of `wide` as a separate matrix.
  Tensor scratch(int64_t cols) const { return {wide.data, wide.rows, cols, cols, wide.dtype}; }
  /// Destination of the gradient of a sublayer's input: post-norm adds it to that of the residual.
  Tensor input_gradient(bool pre_norm) const { return pre_norm ? input : residual; }
};

/// sum = residual + dropout(branch); y = LayerNorm(sum). Backward:
///   post-norm: d_sum = LayerNorm'(d_y);                 d_residual = d_sum; d_branch = mask * d_sum
///   pre-norm:  d_sum = LayerNorm'(d_y) + d_residual;    the same
/// and the gradient of the bias of the linear layer of the branch gets the column sums of d_branch.
class ResidualNorm {
 public:
  struct Saved {
    Tensor y;              // [capacity, d_model] T
    Tensor mean;           // [1, capacity] master
    Tensor rstd;           // [1, capacity] master
    ConstTensor sum = {};  // [rows, d_model] T: in the memory of the branch
    DropoutKey dropout = {};
    ParameterId bias = -1;  // -1: no branch
  };

  explicit ResidualNorm(const NormIds& ids) : ids_(ids) {}

  static Saved plan(Arena& arena, const TransformerConfig& config, DType dtype, int64_t capacity);

  void forward(Pass& pass, ResidualStream& stream, Saved& saved) const;

  /// `first`: no later layer has used the sum itself (always true in post-norm; in pre-norm at the end of a
  /// stack).
  void backward(Pass& pass, GradientStream& gradients, const Saved& saved, bool first = false) const;

 private:
  NormIds ids_;
};

}  // namespace ventris
