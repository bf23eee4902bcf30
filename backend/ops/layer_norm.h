// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/device/context.h"
#include "backend/ops/dropout.h"

namespace ventris {

/// sum = residual + dropout(x); y = gamma * (sum - mean) * rstd + beta, mean and variance over the row,
/// biased variance, rstd = 1 / sqrt(variance + epsilon). Post-norm uses y alone; pre-norm carries `sum` on as
/// the residual stream.
struct LayerNormForwardArgs {
  ConstTensor x = {};    // [rows, d] T: the sublayer's output; empty: sum = residual
  ConstTensor residual;  // [rows, d] T
  DropoutKey dropout = {};
  ConstTensor gamma;  // [1, d] master
  ConstTensor beta;   // [1, d] master
  float epsilon = 1e-5F;
  Tensor sum = {};   // [rows, d] T, saved for backward; may be the memory of x; empty if x is empty or it
                     // is not needed. The statistics are those of `sum` as rounded to T.
  Tensor mean = {};  // [1, rows] master, saved for backward, or empty
  Tensor rstd = {};  // [1, rows] master, saved for backward, or empty
  Tensor y;          // [rows, d] T
};
void layer_norm_forward(Context& context, const LayerNormForwardArgs& args);

/// With xhat = (sum - mean) * rstd and g = gamma * d_y:
///   d_sum      = rstd * (g - mean(g) - xhat * mean(g * xhat)) + d_sum_in
///   d_residual = d_sum;   d_x = mask * d_sum (mask includes the scale of dropout)
///   d_gamma   += column sums of d_y * xhat;   d_beta += column sums of d_y
///   d_bias    += column sums of d_x, if the bias of the linear layer that computed x is given
struct LayerNormBackwardArgs {
  ConstTensor d_y;            // [rows, d] T
  ConstTensor d_sum_in = {};  // [rows, d] T: gradient of `sum` from the residual path (pre-norm), or empty
  ConstTensor sum;            // [rows, d] T
  ConstTensor mean;           // [1, rows] master
  ConstTensor rstd;           // [1, rows] master
  ConstTensor gamma;          // [1, d] master
  DropoutKey dropout = {};
  Tensor d_residual;  // [rows, d] T; may be the memory of d_y or d_sum_in
  /// [rows, d] T; empty if x was empty. May be the memory of d_residual if dropout is off.
  Tensor d_x = {};
  Tensor d_gamma = {};  // [1, d] master, accumulated, or empty
  Tensor d_beta = {};   // [1, d] master, accumulated, or empty
  Tensor d_bias = {};   // [1, d] master, accumulated, or empty
  /// The gradients of parameters are complete only after complete_column_sums (backend/ops/column_sums.h).
  bool sums_later = false;
};
void layer_norm_backward(Context& context, const LayerNormBackwardArgs& args);

}  // namespace ventris
