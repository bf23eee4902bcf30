// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "backend/device/context.h"

namespace ventris {

/// The function between the two products of a feed-forward layer:
///   kRelu   max(x, 0), which the first product does itself (GemmArgs::relu, backend/ops/bias_relu.h)
///   kGelu   x Phi(x), with Phi the distribution function of N(0, 1): exact, not by tanh
///   kSwish  x sigmoid(x)
enum class Activation { kRelu, kGelu, kSwish };
inline constexpr Activation kActivations[] = {Activation::kRelu, Activation::kGelu, Activation::kSwish};

const char* name_of(Activation activation);  // relu, gelu, swish
std::optional<Activation> activation_named(std::string_view name);

/// y = f(x), element by element, for f other than ReLU. y may alias x.
struct ActivationForwardArgs {
  ConstTensor x;  // [rows, n] T
  Tensor y;       // [rows, n] T
  Activation activation;
};
void activation_forward(Context& context, const ActivationForwardArgs& args);

/// d_x = d_y f'(x), which overwrites d_y:
///   kGelu   f'(x) = Phi(x) + x phi(x), with phi(x) = e^(-x^2 / 2) / sqrt(2 pi)
///   kSwish  f'(x) = s (1 + x (1 - s)), with s = sigmoid(x)
struct ActivationBackwardArgs {
  ConstTensor x;  // [rows, n] T
  Tensor d_y;     // [rows, n] T, in and out
  Activation activation;
};
void activation_backward(Context& context, const ActivationBackwardArgs& args);

}  // namespace ventris
