// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/global_norm.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "tests/support/operands.h"
#include "tests/support/operation_case.h"

namespace ventris::testing {
namespace {

class SumOfSquares : public OperationTest {};
VENTRIS_FOR_CASES(SumOfSquares, cases_of_length(test_master_dtypes(), {0, 1, 7, 31, 33, 16384, 100'003}));

class SumOfLargeSquares : public OperationTest {};
VENTRIS_FOR_CASES(SumOfLargeSquares, cases_of_length(test_master_dtypes(), {3, 40'009}));

double squares_of(const Buffer& x, Context& context = test_context()) {
  const MatrixOperand device_x(x);
  const ArrayOperand<double> result({-1.0});
  sum_of_squares(context, {.x = device_x.view(), .result = result.data()});
  return result.get()[0];
}

TEST_P(SumOfSquares, MatchesTheReferenceAndRepeatsItsBits) {
  const Buffer x = Buffer::random(1, GetParam().size.cols, GetParam().dtype, 3);
  const double expected = dot(x, x);
  const double got = squares_of(x);
  EXPECT_NEAR(got, expected, 1e-12 * expected);
  EXPECT_EQ(squares_of(x, other_context()), got);
}

TEST_P(SumOfLargeSquares, DoesNotOverflowWhereF32Would) {
  const int64_t n = GetParam().size.cols;
  Buffer x(1, n, GetParam().dtype);
  for (int64_t i = 0; i < n; ++i) x.set(i, 1e30);
  const double expected = 1e60 * static_cast<double>(n);
  EXPECT_NEAR(squares_of(x), expected, expected * 1e-6);  // 1e30 is rounded to f32
}

TEST_P(SumOfLargeSquares, IsNotFiniteIfAnElementIsNot) {
  const int64_t n = GetParam().size.cols;
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()}) {
    for (const int64_t where : {int64_t{0}, n / 2, n - 1}) {
      Buffer x = Buffer::random(1, n, GetParam().dtype, 3);
      x.set(where, bad);
      EXPECT_FALSE(std::isfinite(squares_of(x))) << bad << " at " << where;
    }
  }
}

class SquaresOfChunks : public OperationTest {};
VENTRIS_FOR_CASES(SquaresOfChunks, cases_of_length(test_master_dtypes(), {16384, 50'021, 70'000}));

TEST_P(SquaresOfChunks, OfTheRangesOfSeveralOwnersGiveTheBitsOfTheWhole) {
  const Buffer x = Buffer::random(1, GetParam().size.cols, GetParam().dtype, 3);
  const MatrixOperand device_x(x);
  const int64_t chunks = squares_chunks(GetParam().size.cols);
  const ArrayOperand<double> partial(std::vector<double>(static_cast<size_t>(chunks), -1.0));
  for (int64_t chunk = chunks; chunk-- > 0;) {
    const int64_t begin = chunk * kSquaresChunk;
    const int64_t count = std::min(kSquaresChunk, GetParam().size.cols - begin);
    squares_of_chunks(test_context(),
                      {.x = device_x.view().col_range(begin, count), .partial = partial.data() + chunk});
  }
  const ArrayOperand<double> result({-1.0});
  sum_of_chunks(test_context(), {.partial = partial.data(), .count = chunks, .result = result.data()});
  EXPECT_EQ(result.get()[0], squares_of(x));
}

}  // namespace
}  // namespace ventris::testing
