#include "backend/global_norm.h"

#include <gtest/gtest.h>

#include "tests/support/compare.h"

namespace ventris {
namespace {

using testing::Buffer;

double squares_of(const Buffer& x, int threads) {
  Context context({.threads = threads, .scratch_bytes = 1 << 16});
  double result = -1.0;
  sum_of_squares(context, {.x = x.view(), .result = &result});
  return result;
}

TEST(SumOfSquares, BitsDoNotDependOnTheNumberOfThreads) {
  const Buffer x = Buffer::random(1, 100003, DType::kF32, 3);
  EXPECT_EQ(squares_of(x, 1), squares_of(x, 2));
  EXPECT_EQ(squares_of(x, 1), squares_of(x, 3));
}

}  // namespace
}  // namespace ventris
