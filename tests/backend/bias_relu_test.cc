// SPDX-License-Identifier: Apache-2.0
#include "backend/bias_relu.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "backend/gemm.h"
#include "tests/support/device_buffer.h"
#include "tests/support/tolerance.h"

namespace ventris {
namespace {

using testing::Buffer;
using testing::tolerance_of;

class BiasRelu : public ::testing::TestWithParam<DType> {};

TEST_P(BiasRelu, AddsColumnSumsOfABlockOfColumns) {
  const DType dtype = GetParam();
  Context context({.threads = 2});
  const Buffer d_y = Buffer::random(257, 12, dtype, 2);
  Buffer d_bias(1, 5, master_dtype(dtype));
  bias_backward(context, {.d_y = d_y.view().col_range(4, 5), .d_bias = d_bias.view()});
  for (int64_t col = 0; col < 5; ++col) {
    double sum = 0.0;
    for (int64_t row = 0; row < 257; ++row) sum += d_y.get(row, col + 4);
    EXPECT_PRED3(testing::close, d_bias.get(col), sum, tolerance_of(dtype));
  }
}

TEST_P(BiasRelu, GivesTheSameBitsForAnyNumberOfThreads) {
  const DType dtype = GetParam();
  std::vector<double> first;
  for (const int threads : {1, 2, 3}) {
    Context context({.threads = threads});
    const Buffer y = Buffer::random(1000, 33, dtype, 1);
    Buffer d_y = Buffer::random(1000, 33, dtype, 2);
    Buffer d_bias(1, 33, master_dtype(dtype));
    bias_relu_backward(context, {.d_y = d_y.view(), .y = y.view(), .d_bias = d_bias.view()});
    std::vector<double> sums;
    for (int64_t i = 0; i < 33; ++i) sums.push_back(d_bias.get(i));
    if (first.empty()) first = sums;
    EXPECT_EQ(std::memcmp(first.data(), sums.data(), sums.size() * sizeof(double)), 0)
        << threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(AllDTypes, BiasRelu, ::testing::Values(DType::kF32, DType::kBF16, DType::kF64),
                         [](const auto& info) { return std::string(name_of(info.param)); });

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
    double sum = 0.0;
    for (int64_t i = 0; i < y.size(); ++i) sum += weight.get(i) * y.get(i);
    return sum;
  };
  forward();
  Buffer d_y = weight;
  Buffer d_bias(1, kOut, DType::kF64);
  Buffer d_w(kIn, kOut, DType::kF64);
  Buffer d_x(kRows, kIn, DType::kF64);
  bias_relu_backward(context, {.d_y = d_y.view(), .y = y.view(), .d_bias = d_bias.view()});
  gemm(context, {.a = d_y.view(), .b = w.view(), .c = d_x.view(), .transpose_b = true});
  gemm(context, {.a = x.view(), .b = d_y.view(), .c = d_w.view(), .transpose_a = true, .accumulate = true});
  const auto expect_gradient = [&](Buffer& value, const Buffer& gradient, const char* name) {
    constexpr double kStep = 1e-6;
    for (int64_t i = 0; i < value.size(); ++i) {
      const double before = value.get(i);
      value.set(i, before + kStep);
      const double up = forward();
      value.set(i, before - kStep);
      const double down = forward();
      value.set(i, before);
      EXPECT_NEAR(gradient.get(i), (up - down) / (2 * kStep), 1e-7) << name << " " << i;
    }
  };
  expect_gradient(x, d_x, "x");
  expect_gradient(w, d_w, "w");
  expect_gradient(bias, d_bias, "bias");
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
