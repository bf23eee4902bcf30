// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/device/context.h"

namespace ventris {

/// y = x * sigmoid(x), element by element. y may alias x.
struct SwishForwardArgs {
  ConstTensor x;  // [rows, n] T
  Tensor y;       // [rows, n] T
};
void swish_forward(Context& context, const SwishForwardArgs& args);

/// With s = sigmoid(x): d_x = d_y * s * (1 + x * (1 - s)), which overwrites d_y.
struct SwishBackwardArgs {
  ConstTensor x;  // [rows, n] T
  Tensor d_y;     // [rows, n] T, in and out
};
void swish_backward(Context& context, const SwishBackwardArgs& args);

}  // namespace ventris
