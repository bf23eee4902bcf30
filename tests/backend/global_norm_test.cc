#include "backend/global_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/compare.h"

namespace ventris {
namespace {

using testing::Buffer;

double squares_of(const Buffer& x, int threads = 1) {
  Context context({.threads = threads, .scratch_bytes = 1 << 16});
  double result = -1.0;
  sum_of_squares(context, {.x = x.view(), .result = &result});
  return result;
}

TEST(SumOfSquares, MatchesAPlainLoop) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    for (const int64_t n : {0, 1, 31, 33, 16384, 50021}) {
      const Buffer x = Buffer::random(1, n, dtype, 3);
      const double expected = testing::dot(x, x);
      EXPECT_NEAR(squares_of(x), expected, 1e-12 * expected);
    }
  }
}

TEST(SumOfSquares, BitsDoNotDependOnTheNumberOfThreads) {
  const Buffer x = Buffer::random(1, 100003, DType::kF32, 3);
  EXPECT_EQ(squares_of(x, 1), squares_of(x, 2));
  EXPECT_EQ(squares_of(x, 1), squares_of(x, 3));
}

TEST(SumOfSquares, IsNotFiniteIfAnElementIsNot) {
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()}) {
    for (const int64_t where : {0, 20000, 40008}) {
      Buffer x = Buffer::random(1, 40009, DType::kF32, 3);
      x.set(where, bad);
      EXPECT_FALSE(std::isfinite(squares_of(x)));
    }
  }
}

TEST(SumOfSquares, DoesNotOverflowWhereF32Would) {
  Buffer x(1, 3, DType::kF32);
  for (int64_t i = 0; i < 3; ++i) x.set(i, 1e30);
  EXPECT_NEAR(squares_of(x), 3e60, 1e54);
}

}  // namespace
}  // namespace ventris
