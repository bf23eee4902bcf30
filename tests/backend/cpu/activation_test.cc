// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/activation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "tests/support/compare.h"
#include "tests/support/finite_difference.h"

namespace ventris {
namespace {

using testing::Buffer;

TEST(Activation, BackwardMatchesFiniteDifferences) {
  Context context({.threads = 1});
  for (const Activation activation : {Activation::kGelu, Activation::kSwish}) {
    SCOPED_TRACE(name_of(activation));
    Buffer x = Buffer::random(7, 5, DType::kF64, 1, 2.0);
    const Buffer weight = Buffer::random(7, 5, DType::kF64, 2);
    Buffer y(7, 5, DType::kF64);
    const auto loss = [&] {
      activation_forward(context, {.x = x.view(), .y = y.view(), .activation = activation});
      return testing::dot(y, weight);
    };
    Buffer d_x = weight;
    activation_backward(context, {.x = x.view(), .d_y = d_x.view(), .activation = activation});
    testing::check_gradient("x", loss, x, d_x);
  }
}

// From far in one tail to far in the other, in steps that are exact.
TEST(Gelu, IsAsExactAsItsDType) {
  Context context({.threads = 1});
  constexpr int64_t kSteps = 13 * 1024;
  for (const auto& [dtype, relative] : {std::pair(DType::kF32, 4e-7), std::pair(DType::kF64, 2e-14)}) {
    Buffer x(1, 2 * kSteps + 1, dtype);
    Buffer y(1, x.size(), dtype);
    for (int64_t i = 0; i < x.size(); ++i) x.set(i, static_cast<double>(i - kSteps) / 1024.0);
    activation_forward(context, {.x = x.view(), .y = y.view(), .activation = Activation::kGelu});
    for (int64_t i = 0; i < x.size(); ++i) {
      const double expected = x.get(i) * 0.5 * std::erfc(-x.get(i) / std::numbers::sqrt2);
      // The tail of f64 is the difference of two numbers of about 1/2.
      const double limit = relative * (dtype == DType::kF32 ? std::abs(expected) : std::abs(x.get(i)));
      ASSERT_NEAR(y.get(i), expected, limit) << name_of(dtype) << " " << x.get(i);
    }
  }
}

TEST(Activation, HasNames) {
  for (const Activation activation : kActivations)
    EXPECT_EQ(activation_named(name_of(activation)), activation);
  EXPECT_EQ(activation_named("tanh"), std::nullopt);
}

TEST(Activation, RefusesWhatDoesNotFit) {
  Context context({.threads = 1});
  Buffer x(2, 3, DType::kF32);
  Buffer y(2, 4, DType::kF32);
  const Activation swish = Activation::kSwish;
  EXPECT_THROW(activation_forward(context, {.x = x.view(), .y = y.view(), .activation = swish}), Error);
  EXPECT_THROW(activation_backward(context, {.x = x.view(), .d_y = y.view(), .activation = swish}), Error);
  const Activation relu = Activation::kRelu;
  EXPECT_THROW(activation_forward(context, {.x = x.view(), .y = x.view(), .activation = relu}), Error);
}

}  // namespace
}  // namespace ventris
