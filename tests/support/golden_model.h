// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <string>

#include "backend/device/context.h"
#include "backend/device/dtype.h"

// The whole model against PyTorch (tests/golden/make_transformer_golden.py), on any device.

namespace ventris::testing {

/// Relative distances, by the norm of a tensor. PyTorch's own bf16 is as far from its float64 on these
/// models: about 5 % in the middle and 15 % at worst for the gradient of a tensor.
struct Bounds {
  double logits, loss, gradient, all_gradients, parameter;
};
inline constexpr Bounds kF32Bounds = {1e-5, 1e-5, 1e-5, 1e-5, 1e-5};
inline constexpr Bounds kBF16Bounds = {3e-2, 1e-2, 0.3, 0.08, 0.1};

/// Sums of |got - expected|^2 and |expected|^2.
struct Squares {
  double difference = 0.0;
  double expected = 0.0;
  double distance() const { return std::sqrt(difference / expected); }
  void add(const Squares& other) {
    difference += other.difference;
    expected += other.expected;
  }
};

/// Logits, loss, gradients and ten steps of the golden model `name` agree with PyTorch.
void check_golden_model(const std::string& name, DType dtype, const ContextOptions& options);

}  // namespace ventris::testing
