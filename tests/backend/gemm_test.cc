// SPDX-License-Identifier: Apache-2.0
#include "backend/gemm.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "backend/gemm_cache.h"
#include "tests/support/device_buffer.h"

namespace ventris {
namespace {

using testing::Buffer;

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
  Buffer bias;
};

class GemmOfDType : public ::testing::TestWithParam<DType> {};

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
      {.m = 4, .n = 24, .k = 300, .transpose_a = true, .master_result = true},
      {.m = 70 * scale + 5, .n = 64, .k = 64, .accumulate = true},
  };
  for (Case c : cases) {
    c.dtype = GetParam();
    std::vector<double> first;
    for (const int threads : {1, 2, 3, 4, 1}) {
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
  Buffer half_a(4, 5, DType::kBF16);
  Buffer bias(1, 5, DType::kF32);
  EXPECT_THROW(gemm(context, {.a = a.view(), .b = b.view(), .c = wide.view()}), Error);
  EXPECT_THROW(gemm(context, {.a = a.view(), .b = b.view(), .c = c.view(), .transpose_b = true}), Error);
  EXPECT_THROW(gemm(context, {.a = half_a.view(), .b = b.view(), .c = c.view()}), Error);
  const auto mixed = [&] { gemm(context, {.a = a.view(), .b = half.view(), .c = c.view()}); };
  if (sums_in_one_chain(DType::kBF16)) {
    EXPECT_NO_THROW(mixed());
  } else {
    EXPECT_THROW(mixed(), Error);
  }
  EXPECT_THROW(gemm(context, {.a = a.view(), .b = b.view(), .c = c.view(), .bias = bias.view()}), Error);
  EXPECT_THROW(gemm(context, {.a = a.view(), .b = b.view(), .c = c.view(), .relu = true, .accumulate = true}),
               Error);
}

}  // namespace
}  // namespace ventris
