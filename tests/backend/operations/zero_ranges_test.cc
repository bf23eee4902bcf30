// SPDX-License-Identifier: Apache-2.0
#include "backend/zero_ranges.h"

#include <vector>

#include "tests/support/operands.h"
#include "tests/support/operation_case.h"

namespace ventris::testing {
namespace {

class ZeroRanges : public OperationTest {};
VENTRIS_FOR_CASES(ZeroRanges, cases({DType::kF32}, {{1, 64}, {1, 40 * 150}, {1, 128 * 300}}));

/// Ranges of 0, 5, 10, ... elements, more than a launch takes on CUDA; the last goes to the end.
TEST_P(ZeroRanges, OtherElementsStay) {
  const auto& [device, dtype, size, rate] = GetParam();
  const Buffer before = Buffer::random(1, size.cols, dtype, 1);
  Buffer expected = before;
  std::vector<FlatRange> ranges;
  for (int64_t begin = 8; begin < size.cols; begin += 40) {
    const int64_t last = begin + 40 >= size.cols ? size.cols - begin : 40;
    ranges.push_back({begin, last < 40 ? last : 5 * static_cast<int64_t>(ranges.size()) % 40});
  }
  ranges.push_back({0, 3});
  for (const FlatRange& range : ranges) {
    for (int64_t i = range.begin; i < range.begin + range.count; ++i) expected.set(i, 0.0);
  }
  const MatrixOperand flat(before);
  zero_ranges(test_context(), flat.view(), ranges);
  expect_same_bits("flat", flat, expected);
}

TEST_P(ZeroRanges, RefusesRangesOutside) {
  const auto& [device, dtype, size, rate] = GetParam();
  const MatrixOperand flat(Buffer::random(1, size.cols, dtype, 1));
  for (const FlatRange& range : {FlatRange{-8, 8}, FlatRange{0, size.cols + 1}, FlatRange{8, -1}})
    EXPECT_THROW(zero_ranges(test_context(), flat.view(), {&range, 1}), Error);
}

}  // namespace
}  // namespace ventris::testing
