#include "backend/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "backend/gemm_cache.h"
#include "tests/support/device_buffer.h"
#include "tests/support/tolerance.h"

namespace ventris {
namespace {

using testing::Buffer;
using testing::tolerance_of;

struct Case {
  DType dtype = DType::kF32;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  bool bias = false;
  bool relu = false;
  bool accumulate = false;
  bool master_result = false;
};

// All operands are blocks of columns of wider matrices.
struct Operands {
  explicit Operands(const Case& c)
      : a(random(c.transpose_a ? c.k : c.m, c.transpose_a ? c.m : c.k, c.dtype, 1)),
        b(random(c.transpose_b ? c.n : c.k, c.transpose_b ? c.k : c.n, c.dtype, 2)),
        result(random(c.m, c.n, c.master_result ? master_dtype(c.dtype) : c.dtype, 3)),
        before(result),
        bias(Buffer::random(1, c.n, master_dtype(c.dtype), 4)) {}

  static Buffer random(int64_t rows, int64_t cols, DType dtype, uint32_t seed) {
    return Buffer::random(rows, cols + kExtra, dtype, seed, 0.5);
  }
  static Tensor inner(Buffer& buffer) { return buffer.view().col_range(kLeft, buffer.view().cols - kExtra); }

  GemmArgs args(const Case& c) {
    return {.a = inner(a),
            .b = inner(b),
            .c = inner(result),
            .transpose_a = c.transpose_a,
            .transpose_b = c.transpose_b,
            .bias = c.bias ? ConstTensor(bias.view()) : ConstTensor{},
            .relu = c.relu,
            .accumulate = c.accumulate};
  }

  static constexpr int64_t kExtra = 5;
  static constexpr int64_t kLeft = 3;
  Buffer a;
  Buffer b;
  Buffer result;
  Buffer before;
  Buffer bias;
};

double expected(const Case& c, const Operands& o, int64_t row, int64_t col) {
  double sum = c.accumulate ? o.before.get(row, col + Operands::kLeft) : 0.0;
  for (int64_t p = 0; p < c.k; ++p) {
    const double a = c.transpose_a ? o.a.get(p, row + Operands::kLeft) : o.a.get(row, p + Operands::kLeft);
    const double b = c.transpose_b ? o.b.get(col, p + Operands::kLeft) : o.b.get(p, col + Operands::kLeft);
    sum += a * b;
  }
  if (c.bias) sum += o.bias.get(col);
  return c.relu ? std::max(sum, 0.0) : sum;
}

void expect_right(const Case& c, Operands& o) {
  const auto tolerance = tolerance_of(c.dtype);
  // The error of a sum grows with the square root of its length.
  const double absolute = tolerance.absolute * std::sqrt(static_cast<double>(std::max<int64_t>(c.k, 1)));
  int64_t wrong = 0;
  for (int64_t row = 0; row < c.m; ++row) {
    for (int64_t col = 0; col < c.n + Operands::kExtra; ++col) {
      const int64_t inner = col - Operands::kLeft;
      const double got = o.result.get(row, col);
      const bool outside = inner < 0 || inner >= c.n;
      const double want = outside ? o.before.get(row, col) : expected(c, o, row, inner);
      const bool right = outside ? got == want : testing::close(got, want, {absolute, tolerance.relative});
      if (!right && ++wrong <= 3)
        ADD_FAILURE() << "row " << row << ", column " << inner << ": " << got << " for " << want;
    }
  }
  EXPECT_EQ(wrong, 0) << name_of(c.dtype) << " " << c.m << " x " << c.n << " x " << c.k
                      << (c.transpose_a ? " a^T" : "") << (c.transpose_b ? " b^T" : "");
}

class GemmOfDType : public ::testing::TestWithParam<DType> {};

TEST_P(GemmOfDType, EqualsTheSumOfProductsAtAwkwardSizes) {
  Context context({.threads = 2});
  const std::tuple<int64_t, int64_t, int64_t> sizes[] = {{1, 1, 1},     {1, 17, 5},    {2, 3, 1},
                                                         {7, 13, 31},   {32, 64, 32},  {33, 65, 67},
                                                         {61, 40, 129}, {100, 300, 37}};
  for (const auto& [m, n, k] : sizes) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        const Case c{.dtype = GetParam(),
                     .m = m,
                     .n = n,
                     .k = k,
                     .transpose_a = transpose_a,
                     .transpose_b = transpose_b};
        Operands o(c);
        gemm(context, o.args(c));
        expect_right(c, o);
      }
    }
  }
}

TEST_P(GemmOfDType, AddsBiasAndAppliesRelu) {
  Context context({.threads = 1});
  for (const bool relu : {false, true}) {
    for (const int64_t m : {3, 45}) {
      const Case c{.dtype = GetParam(), .m = m, .n = 70, .k = 33, .bias = true, .relu = relu};
      Operands o(c);
      gemm(context, o.args(c));
      expect_right(c, o);
    }
  }
  const Case only_relu{.dtype = GetParam(), .m = 34, .n = 9, .k = 12, .transpose_b = true, .relu = true};
  Operands o(only_relu);
  gemm(context, o.args(only_relu));
  expect_right(only_relu, o);
}

TEST_P(GemmOfDType, AccumulatesInTheDTypeOfMasters) {
  Context context({.threads = 2});
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const int64_t k : {1, 31, 32, 77}) {
        const Case c{.dtype = GetParam(),
                     .m = 63,
                     .n = 35,
                     .k = k,
                     .transpose_a = transpose_a,
                     .transpose_b = transpose_b,
                     .accumulate = true,
                     .master_result = true};
        Operands o(c);
        gemm(context, o.args(c));
        expect_right(c, o);
      }
    }
  }
}

TEST_P(GemmOfDType, AccumulatesInTheDTypeOfActivations) {
  Context context({.threads = 1});
  const Case c{.dtype = GetParam(), .m = 43, .n = 20, .k = 19, .accumulate = true};
  Operands o(c);
  gemm(context, o.args(c));
  expect_right(c, o);
}

TEST_P(GemmOfDType, GivesTheBiasOrNothingForAnEmptySum) {
  Context context({.threads = 1});
  const Case c{.dtype = GetParam(), .m = 3, .n = 4, .k = 0, .bias = true};
  Operands o(c);
  gemm(context, o.args(c));
  expect_right(c, o);
}

// Sizes of several blocks, so that threads share the work; the unit tails are in every form.
TEST_P(GemmOfDType, GivesTheSameBitsForAnyNumberOfThreadsAndEveryRun) {
  const int64_t scale = GetParam() == DType::kF64 ? 1 : 8;
  const Case cases[] = {
      {.m = 139 * scale + 3, .n = 96 * scale, .k = 64, .bias = true, .relu = true},
      {.m = 70 * scale + 1, .n = 64, .k = 96 * scale, .transpose_b = true},
      {.m = 84 * scale,
       .n = 70 * scale,
       .k = 139 * scale + 3,
       .transpose_a = true,
       .accumulate = true,
       .master_result = true},
      {.m = 70 * scale + 5, .n = 64, .k = 64, .accumulate = true},
  };
  for (Case c : cases) {
    c.dtype = GetParam();
    std::vector<double> first;
    for (const int threads : {1, 2, 3, 1}) {
      Context context({.threads = threads});
      Operands o(c);
      gemm(context, o.args(c));
      std::vector<double> all;
      for (int64_t i = 0; i < o.result.size(); ++i) all.push_back(o.result.get(i));
      if (first.empty()) first = all;
      EXPECT_EQ(std::memcmp(first.data(), all.data(), all.size() * sizeof(double)), 0)
          << threads << " threads, " << c.m << " x " << c.n << " x " << c.k;
    }
  }
}

TEST_P(GemmOfDType, GivesARowTheSameBitsWhateverTheNumberOfRows) {
  const Case max{.dtype = GetParam(), .m = 777, .n = 48, .k = 300, .bias = true};
  Context context({.threads = 2});
  Operands o(max);
  gemm(context, o.args(max));
  for (const int64_t m : {1, 5, 33, 500, 640}) {
    Buffer fewer(m, max.n, max.dtype);
    GemmArgs args = o.args(max);
    args.a = args.a.row_range(0, m);
    args.c = fewer.view();
    gemm(context, args);
    int64_t different = 0;
    for (int64_t i = 0; i < m * max.n; ++i) {
      different += fewer.get(i) != o.result.get(i / max.n, i % max.n + Operands::kLeft);
    }
    EXPECT_EQ(different, 0) << m << " rows";
  }
}

INSTANTIATE_TEST_SUITE_P(AllDTypes, GemmOfDType, ::testing::Values(DType::kF32, DType::kBF16, DType::kF64),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(GemmCache, NeedsFewPrimitivesForManyNumbersOfTokens) {
  Context context({.threads = 1});
  Buffer x = Buffer::random(1400, 16, DType::kF32, 1);
  Buffer y = Buffer::random(1400, 16, DType::kF32, 2);
  Buffer weights = Buffer::random(16, 16, DType::kF32, 3);
  for (int64_t tokens = 1200; tokens <= 1400; ++tokens) {
    gemm(context,
         {.a = x.view().row_range(0, tokens), .b = weights.view(), .c = y.view().row_range(0, tokens)});
    gemm(context, {.a = x.view().row_range(0, tokens),
                   .b = y.view().row_range(0, tokens),
                   .c = weights.view(),
                   .transpose_a = true,
                   .accumulate = true});
  }
  EXPECT_LE(context.gemm_cache().size(), 20U);
  const size_t known = context.gemm_cache().size();
  gemm(context, {.a = x.view().row_range(0, 1234), .b = weights.view(), .c = y.view().row_range(0, 1234)});
  EXPECT_EQ(context.gemm_cache().size(), known);
}

TEST(Gemm, RefusesShapesAndDTypesThatDoNotMatch) {
  Context context({.threads = 1});
  Buffer a(4, 5, DType::kF32);
  Buffer b(5, 6, DType::kF32);
  Buffer c(4, 6, DType::kF32);
  Buffer wide(4, 7, DType::kF32);
  Buffer half(5, 6, DType::kBF16);
  Buffer bias(1, 5, DType::kF32);
  EXPECT_THROW(gemm(context, {.a = a.view(), .b = b.view(), .c = wide.view()}), Error);
  EXPECT_THROW(gemm(context, {.a = a.view(), .b = b.view(), .c = c.view(), .transpose_b = true}), Error);
  EXPECT_THROW(gemm(context, {.a = a.view(), .b = half.view(), .c = c.view()}), Error);
  EXPECT_THROW(gemm(context, {.a = a.view(), .b = b.view(), .c = c.view(), .bias = bias.view()}), Error);
  EXPECT_THROW(gemm(context, {.a = a.view(), .b = b.view(), .c = c.view(), .relu = true, .accumulate = true}),
               Error);
}

}  // namespace
}  // namespace ventris
