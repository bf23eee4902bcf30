// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/bias_relu.h"

#include <gtest/gtest.h>

#include "backend/ops/gemm.h"
#include "tests/support/compare.h"
#include "tests/support/finite_difference.h"

namespace ventris {
namespace {

using testing::Buffer;

// d/d(x, w, bias) of sum(weight * ReLU(x w + bias)) in f64, against differences.
TEST(LinearReluGradient, EqualsFiniteDifferences) {
  Context context({.threads = 1});
  constexpr int64_t kRows = 7;
  constexpr int64_t kIn = 5;
  constexpr int64_t kOut = 3;
  Buffer x = Buffer::random(kRows, kIn, DType::kF64, 1);
  Buffer w = Buffer::random(kIn, kOut, DType::kF64, 2);
  Buffer bias = Buffer::random(1, kOut, DType::kF64, 3);
  const Buffer weight = Buffer::random(kRows, kOut, DType::kF64, 4);
  Buffer y(kRows, kOut, DType::kF64);
  const auto forward = [&] {
    gemm(context, {.a = x.view(), .b = w.view(), .c = y.view(), .bias = bias.view(), .relu = true});
    return testing::dot(y, weight);
  };
  forward();
  Buffer d_y = weight;
  Buffer d_bias(1, kOut, DType::kF64);
  Buffer d_w(kIn, kOut, DType::kF64);
  Buffer d_x(kRows, kIn, DType::kF64);
  bias_relu_backward(context, {.d_y = d_y.view(), .y = y.view(), .d_bias = d_bias.view()});
  gemm(context, {.a = d_y.view(), .b = w.view(), .c = d_x.view(), .transpose_b = true});
  gemm(context, {.a = x.view(), .b = d_y.view(), .c = d_w.view(), .transpose_a = true, .accumulate = true});
  testing::check_gradient("x", forward, x, d_x);
  testing::check_gradient("w", forward, w, d_w);
  testing::check_gradient("bias", forward, bias, d_bias);
}

TEST(BiasReluChecks, RefuseShapesThatDoNotMatch) {
  Context context({.threads = 1});
  Buffer d_y(2, 3, DType::kF32);
  Buffer y(2, 4, DType::kF32);
  Buffer d_bias(1, 4, DType::kF32);
  EXPECT_THROW(bias_relu_backward(context, {.d_y = d_y.view(), .y = y.view(), .d_bias = d_bias.view()}),
               Error);
  EXPECT_THROW(bias_backward(context, {.d_y = d_y.view(), .d_bias = d_bias.view()}), Error);
  Buffer fitting(1, 3, DType::kF32);
  for (const ColumnGroups& wrong : {ColumnGroups{0, 4, 4}, ColumnGroups{1, 2, 1}, ColumnGroups{-1, 1, 3},
                                    ColumnGroups{0, 2, 2}, ColumnGroups{3, 1, 1}}) {
    EXPECT_THROW(bias_backward(context, {.d_y = d_y.view(), .d_bias = fitting.view(), .columns = wrong}),
                 Error);
  }
}

}  // namespace
}  // namespace ventris
