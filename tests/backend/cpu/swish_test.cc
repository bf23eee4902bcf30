// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/swish.h"

#include <gtest/gtest.h>

#include "tests/support/compare.h"
#include "tests/support/finite_difference.h"

namespace ventris {
namespace {

using testing::Buffer;

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
