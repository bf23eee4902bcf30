// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/gemm.h"

#include <gtest/gtest.h>

#include <string>

#include "backend/cpu/gemm_onednn.h"
#include "tests/support/device_buffer.h"

namespace ventris {
namespace {

using testing::Buffer;

class GemmOfDType : public ::testing::TestWithParam<DType> {};

TEST_P(GemmOfDType, GivesARowTheSameBitsWhateverTheNumberOfRows) {
  constexpr int64_t kRows = 777, kCols = 48, kDepth = 300;
  Context context({.threads = 2});
  const Buffer a = Buffer::random(kRows, kDepth, GetParam(), 1, 0.5);
  const Buffer b = Buffer::random(kDepth, kCols, GetParam(), 2, 0.5);
  const Buffer bias = Buffer::random(1, kCols, master_dtype(GetParam()), 4);
  const auto product = [&](int64_t rows) {
    Buffer c(rows, kCols, GetParam());
    gemm(context, {.a = a.view().row_range(0, rows), .b = b.view(), .c = c.view(), .bias = bias.view()});
    return c;
  };
  const Buffer all = product(kRows);
  for (const int64_t rows : {1, 5, 33, 500, 640}) {
    const Buffer fewer = product(rows);
    int64_t different = 0;
    for (int64_t i = 0; i < fewer.size(); ++i) different += fewer.get(i) != all.get(i);
    EXPECT_EQ(different, 0) << rows << " rows";
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
