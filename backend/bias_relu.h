#pragma once

#include "backend/context.h"

namespace ventris {

/// Backward of y = ReLU(x w + bias) up to the GEMM: d_y is overwritten by d_y * (y > 0), and d_bias += its
/// column sums.
struct BiasReluBackwardArgs {
  Tensor d_y;     // [rows, n] T, in and out
  ConstTensor y;  // [rows, n] T
  Tensor d_bias;  // [1, n] master
};
void bias_relu_backward(Context& context, const BiasReluBackwardArgs& args);

/// Backward of a bias alone: d_bias += column sums of d_y.
struct BiasBackwardArgs {
  ConstTensor d_y;  // [rows, n] T
  Tensor d_bias;    // [1, n] master
};
void bias_backward(Context& context, const BiasBackwardArgs& args);

}  // namespace ventris
