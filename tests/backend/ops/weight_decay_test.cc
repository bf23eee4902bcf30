// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/weight_decay.h"

#include "tests/support/operands.h"
#include "tests/support/operation_case.h"

namespace ventris::testing {
namespace {

class WeightDecay : public OperationTest {};
VENTRIS_FOR_CASES(WeightDecay, cases_of_length(test_master_dtypes(), {40, 40 * 150 + 13, 128 * 300}));

constexpr AdamScalars kScalars = {
    .learning_rate = 0.25F, .gradient_scale = 1.0F, .bias_correction1 = 1.0F, .bias_correction2 = 1.0F};

/// Ranges of 0, 5, 10, ... elements, more than a launch takes on CUDA; the last goes to the end.
std::vector<FlatRange> ranges_of(int64_t size, int64_t first) {
  std::vector<FlatRange> ranges;
  for (int64_t begin = first; begin < size; begin += 40) {
    const int64_t rest = size - begin;
    ranges.push_back({begin, rest <= 40 ? rest : 5 * static_cast<int64_t>(ranges.size()) % 40});
  }
  return ranges;
}

TEST_P(WeightDecay, MultipliesTheElementsOfTheRangesAlone) {
  const DType dtype = GetParam().dtype;
  const Buffer before = Buffer::random(1, GetParam().size.cols, dtype, 1);
  const ArrayOperand<AdamScalars> scalars({kScalars});
  for (const int64_t first : {8, 3}) {  // packs that are aligned, and that are not
    const std::vector<FlatRange> ranges = ranges_of(before.size(), first);
    Buffer expected = before;
    for (const FlatRange& range : ranges) {
      for (int64_t i = range.begin; i < range.begin + range.count; ++i)
        expected.set(i, before.get(i) * 0.875);  // rounded once, as the product is
    }
    const MatrixOperand values(before);
    weight_decay(test_context(),
                 {.values = values.view(), .ranges = ranges, .decay = 0.5, .scalars = scalars.data()});
    expect_same_bits("values", values, expected);
  }
}

TEST_P(WeightDecay, IsLeftOutInASkippedStep) {
  const Buffer before = Buffer::random(1, GetParam().size.cols, GetParam().dtype, 1);
  AdamScalars skip = kScalars;
  skip.skip = 1;
  const ArrayOperand<AdamScalars> scalars({skip});
  const MatrixOperand values(before);
  const FlatRange all{0, before.size()};
  weight_decay(test_context(),
               {.values = values.view(), .ranges = {&all, 1}, .decay = 0.5, .scalars = scalars.data()});
  expect_same_bits("values", values, before);
}

TEST_P(WeightDecay, RefusesRangesOutside) {
  const Buffer before = Buffer::random(1, GetParam().size.cols, GetParam().dtype, 1);
  const ArrayOperand<AdamScalars> scalars({kScalars});
  const MatrixOperand values(before);
  const FlatRange outside{8, before.size()};
  EXPECT_THROW(
      weight_decay(
          test_context(),
          {.values = values.view(), .ranges = {&outside, 1}, .decay = 0.5, .scalars = scalars.data()}),
      Error);
}

}  // namespace
}  // namespace ventris::testing
