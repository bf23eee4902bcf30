// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <tuple>

#include "backend/cpu_kernels.h"
#include "tests/support/device_buffer.h"

namespace ventris {
namespace {

using testing::Buffer;

/// About one element of `period` is positive, the others are zero and a few negative.
Buffer some_positive(int64_t rows, int64_t cols, DType dtype, int64_t period) {
  Buffer x(rows, cols, dtype);
  for (int64_t i = 0; i < x.size(); ++i)
    x.set(i, i * 2654435761 % period == 0 ? 0.5 : i % 200 == 0 ? -1.0 : 0.0);
  return x;
}

void expect_needed(int64_t m, int64_t n, int64_t k, DType dtype, bool transpose_b, int threads) {
  constexpr double kUntouched = 1024.0;
  Context context({.threads = threads});
  const Buffer a = Buffer::random(m, k, dtype, 1);
  const Buffer b = Buffer::random(transpose_b ? n : k, transpose_b ? k : n, dtype, 2);
  const Buffer needed = some_positive(m, n, dtype, 97);
  Buffer c(m, n, dtype);
  Buffer all(m, n, dtype);
  for (int64_t i = 0; i < c.size(); ++i) c.set(i, kUntouched);
  cpu_kernels().chained_gemm(
      context,
      {.a = a.view(), .b = b.view(), .c = c.view(), .transpose_b = transpose_b, .needed = needed.view()});
  cpu_kernels().chained_gemm(context,
                             {.a = a.view(), .b = b.view(), .c = all.view(), .transpose_b = transpose_b});
  int64_t different = 0;
  int64_t untouched = 0;
  for (int64_t i = 0; i < c.size(); ++i) {
    untouched += c.get(i) == kUntouched ? 1 : 0;
    if (needed.get(i) > 0.0) different += c.get(i) == all.get(i) ? 0 : 1;
  }
  EXPECT_EQ(different, 0) << m << " x " << n << " x " << k << " of " << name_of(dtype);
  if (c.view().stride >= 64 && k <= 512) {
    EXPECT_GT(untouched, 0);
  }
}

TEST(NeededGemm, HasTheBitsOfTheWholeProductWhereItIsNeeded) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const bool transpose_b : {false, true}) {
      for (const auto& [m, n, k] :
           {std::tuple{1, 1, 1}, {13, 300, 5}, {200, 67, 130}, {30, 1100, 64}, {20, 40, 1100}}) {
        expect_needed(m, n, k, dtype, transpose_b, 2);
      }
    }
  }
}

TEST(NeededGemm, ComputesAllIfMostIsNeeded) {
  Context context({.threads = 1});
  const Buffer a = Buffer::random(40, 50, DType::kF32, 1);
  const Buffer b = Buffer::random(50, 80, DType::kF32, 2);
  const Buffer needed = some_positive(40, 80, DType::kF32, 2);
  Buffer c(40, 80, DType::kF32);
  Buffer all(40, 80, DType::kF32);
  cpu_kernels().chained_gemm(context, {.a = a.view(), .b = b.view(), .c = c.view(), .needed = needed.view()});
  cpu_kernels().chained_gemm(context, {.a = a.view(), .b = b.view(), .c = all.view()});
  for (int64_t i = 0; i < c.size(); ++i) ASSERT_EQ(c.get(i), all.get(i)) << i;
}

}  // namespace
}  // namespace ventris
