// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/cast.h"

#include "tests/support/operands.h"
#include "tests/support/operation_case.h"

namespace ventris::testing {
namespace {

class Cast : public OperationTest {};
class FillZero : public OperationTest {};

const std::vector<Size> kCastSizes = {{1, 1}, {3, 7, 2}, {5, 64}, {37, 264, 8}, {71, 229}, {37, 1031}};
VENTRIS_FOR_CASES(Cast, cases(test_dtypes(), kCastSizes));
VENTRIS_FOR_CASES(FillZero, cases(test_dtypes(), {{1, 1}, {37, 264, 8}, {71, 229}}));

/// From the dtype of the case to every one.
TEST_P(Cast, MatchesTheReference) {
  const auto& [device, from, size, rate] = GetParam();
  const Buffer x = Buffer::random(size.rows, size.cols, from, 1);
  const MatrixOperand source(x, size.gap);
  for (const DType to : test_dtypes()) {
    const MatrixOperand destination(size.rows, size.cols, to, size.gap);
    cast(test_context(), {.source = source.view(), .destination = destination.view()});
    Buffer expected(size.rows, size.cols, to);
    for (int64_t i = 0; i < x.size(); ++i) expected.set(i, x.get(i));
    expect_same_bits(std::string("to ") + name_of(to), destination, expected);
  }
}

TEST_P(FillZero, MatchesTheReference) {
  const auto& [device, dtype, size, rate] = GetParam();
  const MatrixOperand x(Buffer::random(size.rows, size.cols, dtype, 1), size.gap);
  fill_zero(test_context(), x.view());
  expect_same_bits("x", x, Buffer(size.rows, size.cols, dtype));
}

}  // namespace
}  // namespace ventris::testing
