// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/activation.h"

#include "backend/ops/kernels.h"
#include "backend/ops/op_checks.h"

namespace ventris {
namespace {

void check_activation(const ConstTensor& x, const Tensor& out, const char* name, Activation activation) {
  check_tensor(out, out.rows, out.cols, out.dtype, name);
  check_tensor(x, out.rows, out.cols, out.dtype, "x");
  VENTRIS_CHECK(activation != Activation::kRelu, "ReLU is a part of the product before it");
}

}  // namespace

const char* name_of(Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return "relu";
    case Activation::kGelu:
      return "gelu";
    case Activation::kSwish:
      return "swish";
  }
  return "";
}

std::optional<Activation> activation_named(std::string_view name) {
  for (const Activation activation : kActivations)
    if (name == name_of(activation)) return activation;
  return std::nullopt;
}

void activation_forward(Context& context, const ActivationForwardArgs& args) {
  check_activation(args.x, args.y, "y", args.activation);
  kernels::activation_forward(context, args);
}

void activation_backward(Context& context, const ActivationBackwardArgs& args) {
  check_activation(args.x, args.d_y, "d_y", args.activation);
  kernels::activation_backward(context, args);
}

}  // namespace ventris
