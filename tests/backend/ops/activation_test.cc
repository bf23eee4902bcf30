// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/activation.h"

#include <numbers>

#include "tests/support/operands.h"
#include "tests/support/operation_case.h"

namespace ventris::testing {
namespace {

constexpr Activation kSmooth[] = {Activation::kGelu, Activation::kSwish};

struct ValueAndSlope {
  double value;
  double slope;
};

ValueAndSlope value_and_slope(Activation activation, double x) {
  if (activation == Activation::kGelu) {
    const double cumulative = 0.5 * std::erfc(-x / std::numbers::sqrt2);
    const double density = std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::numbers::pi);
    return {x * cumulative, cumulative + x * density};
  }
  const double s = 1.0 / (1.0 + std::exp(-x));
  return {x * s, s + x * s * (1.0 - s)};
}

class ActivationOp : public OperationTest {};
VENTRIS_FOR_CASES(ActivationOp,
                  cases(test_dtypes(), {{1, 1}, {3, 7, 2}, {5, 64}, {37, 264, 8}, {71, 229}, {70, 131}}));

TEST_P(ActivationOp, ForwardAndBackwardMatchTheReference) {
  const auto& [device, dtype, size, rate] = GetParam();
  Buffer x = Buffer::random(size.rows, size.cols, dtype, 1, 4.0);
  if (x.size() > 1) x.set(0, -200.0);
  const Buffer d_y = Buffer::random(size.rows, size.cols, dtype, 2);
  for (const Activation activation : kSmooth) {
    SCOPED_TRACE(name_of(activation));
    std::vector<double> y;
    std::vector<double> d_x;
    for (int64_t i = 0; i < x.size(); ++i) {
      const auto [value, slope] = value_and_slope(activation, x.get(i));
      y.push_back(value);
      d_x.push_back(d_y.get(i) * slope);
    }
    const MatrixOperand device_x(x, size.gap), gradient(d_y, size.gap);
    const MatrixOperand device_y(size.rows, size.cols, dtype, size.gap);
    activation_forward(test_context(),
                       {.x = device_x.view(), .y = device_y.view(), .activation = activation});
    expect_close("y", device_y, y, dtype);
    activation_backward(test_context(),
                        {.x = device_x.view(), .d_y = gradient.view(), .activation = activation});
    expect_close("d_x", gradient, d_x, dtype);
    activation_forward(test_context(),
                       {.x = device_x.view(), .y = device_x.view(), .activation = activation});
    expect_same_bits("y in place", device_x, device_y);
  }
}

TEST(ActivationOfLargeNumbers, IsFinite) {
  for (const Activation activation : kSmooth) {
    for (const DType dtype : test_dtypes()) {
      Buffer x(1, 2, dtype);
      Buffer ones(1, 2, dtype);
      for (const int64_t i : {0, 1}) x.set(i, i == 0 ? -1000.0 : 1000.0), ones.set(i, 1.0);
      const MatrixOperand device_x(x), device_y(1, 2, dtype), gradient(ones);
      activation_forward(test_context(),
                         {.x = device_x.view(), .y = device_y.view(), .activation = activation});
      activation_backward(test_context(),
                          {.x = device_x.view(), .d_y = gradient.view(), .activation = activation});
      const Buffer y = device_y.get();
      const Buffer d_x = gradient.get();
      EXPECT_NEAR(y.get(0), 0.0, 1e-30);
      EXPECT_EQ(y.get(1), 1000.0);
      EXPECT_NEAR(d_x.get(0), 0.0, 1e-30);
      EXPECT_EQ(d_x.get(1), 1.0);
    }
  }
}

}  // namespace
}  // namespace ventris::testing
