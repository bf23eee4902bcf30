#include "backend/swish.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/finite_difference.h"

namespace ventris {
namespace {

using testing::Buffer;
using testing::kAllDTypes;

double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

TEST(Swish, ForwardAndBackwardMatchTheirFormula) {
  Context context({.threads = 2});
  for (const DType dtype : kAllDTypes) {
    for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{1, 1}, {3, 7}, {70, 131}}) {
      Buffer x = Buffer::random(rows, cols, dtype, 1, 3.0);
      Buffer y(rows, cols, dtype);
      Buffer gradient = Buffer::random(rows, cols, dtype, 2);
      std::vector<double> expected;
      std::vector<double> expected_gradient;
      for (int64_t i = 0; i < x.size(); ++i) {
        const double s = sigmoid(x.get(i));
        expected.push_back(x.get(i) * s);
        expected_gradient.push_back(gradient.get(i) * (s + x.get(i) * s * (1.0 - s)));
      }
      swish_forward(context, {.x = x.view(), .y = y.view()});
      swish_backward(context, {.x = x.view(), .d_y = gradient.view()});
      testing::expect_close("y", y, expected, testing::tolerance_of(dtype));
      testing::expect_close("d_x", gradient, expected_gradient, testing::tolerance_of(dtype));
      swish_forward(context, {.x = x.view(), .y = x.view()});
      testing::expect_same_bits("y in place", x, y);
    }
  }
}

TEST(Swish, OfLargeNumbersIsFinite) {
  Context context({.threads = 1});
  for (const DType dtype : kAllDTypes) {
    Buffer x(1, 2, dtype);
    x.set(0, -1000.0);
    x.set(1, 1000.0);
    Buffer y(1, 2, dtype);
    Buffer gradient(1, 2, dtype);
    gradient.set(0, 1.0);
    gradient.set(1, 1.0);
    swish_forward(context, {.x = x.view(), .y = y.view()});
    swish_backward(context, {.x = x.view(), .d_y = gradient.view()});
    EXPECT_NEAR(y.get(0), 0.0, 1e-30);
    EXPECT_EQ(y.get(1), 1000.0);
    EXPECT_NEAR(gradient.get(0), 0.0, 1e-30);
    EXPECT_EQ(gradient.get(1), 1.0);
  }
}

TEST(Swish, BackwardMatchesFiniteDifferences) {
  Context context({.threads = 1});
  Buffer x = Buffer::random(7, 5, DType::kF64, 1, 2.0);
  const Buffer weight = Buffer::random(7, 5, DType::kF64, 2);
  Buffer y(7, 5, DType::kF64);
  const auto loss = [&] {
    swish_forward(context, {.x = x.view(), .y = y.view()});
    return testing::dot(y, weight);
  };
  Buffer d_x = weight;
  swish_backward(context, {.x = x.view(), .d_y = d_x.view()});
  testing::check_gradient("x", loss, x, d_x);
}

TEST(Swish, RefusesShapesThatDoNotMatch) {
  Context context({.threads = 1});
  Buffer x(2, 3, DType::kF32);
  Buffer y(2, 4, DType::kF32);
  EXPECT_THROW(swish_forward(context, {.x = x.view(), .y = y.view()}), Error);
  EXPECT_THROW(swish_backward(context, {.x = x.view(), .d_y = y.view()}), Error);
}

}  // namespace
}  // namespace ventris
