// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/swish.h"

#include "tests/support/operands.h"
#include "tests/support/operation_case.h"

namespace ventris::testing {
namespace {

class Swish : public OperationTest {};
VENTRIS_FOR_CASES(Swish,
                  cases(test_dtypes(), {{1, 1}, {3, 7, 2}, {5, 64}, {37, 264, 8}, {71, 229}, {70, 131}}));

TEST_P(Swish, ForwardAndBackwardMatchTheReference) {
  const auto& [device, dtype, size, rate] = GetParam();
  Buffer x = Buffer::random(size.rows, size.cols, dtype, 1, 4.0);
  if (x.size() > 1) x.set(0, -200.0);
  const Buffer d_y = Buffer::random(size.rows, size.cols, dtype, 2);
  std::vector<double> y;
  std::vector<double> d_x;
  for (int64_t i = 0; i < x.size(); ++i) {
    const double s = 1.0 / (1.0 + std::exp(-x.get(i)));
    y.push_back(x.get(i) * s);
    d_x.push_back(d_y.get(i) * (s + x.get(i) * s * (1.0 - s)));
  }
  const MatrixOperand device_x(x, size.gap), gradient(d_y, size.gap);
  const MatrixOperand device_y(size.rows, size.cols, dtype, size.gap);
  swish_forward(test_context(), {.x = device_x.view(), .y = device_y.view()});
  expect_close("y", device_y, y, dtype);
  swish_backward(test_context(), {.x = device_x.view(), .d_y = gradient.view()});
  expect_close("d_x", gradient, d_x, dtype);
  swish_forward(test_context(), {.x = device_x.view(), .y = device_x.view()});
  expect_same_bits("y in place", device_x, device_y);
}

TEST(SwishOfLargeNumbers, IsFinite) {
  for (const DType dtype : test_dtypes()) {
    Buffer x(1, 2, dtype);
    Buffer ones(1, 2, dtype);
    for (const int64_t i : {0, 1}) x.set(i, i == 0 ? -1000.0 : 1000.0), ones.set(i, 1.0);
    const MatrixOperand device_x(x), device_y(1, 2, dtype), gradient(ones);
    swish_forward(test_context(), {.x = device_x.view(), .y = device_y.view()});
    swish_backward(test_context(), {.x = device_x.view(), .d_y = gradient.view()});
    const Buffer y = device_y.get();
    const Buffer d_x = gradient.get();
    EXPECT_NEAR(y.get(0), 0.0, 1e-30);
    EXPECT_EQ(y.get(1), 1000.0);
    EXPECT_NEAR(d_x.get(0), 0.0, 1e-30);
    EXPECT_EQ(d_x.get(1), 1.0);
  }
}

}  // namespace
}  // namespace ventris::testing
