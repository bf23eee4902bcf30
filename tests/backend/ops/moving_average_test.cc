// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/moving_average.h"

#include "tests/support/operands.h"
#include "tests/support/operation_case.h"

namespace ventris::testing {
namespace {

class MovingAverage : public OperationTest {};
class Exchange : public OperationTest {};

VENTRIS_FOR_CASES(MovingAverage, cases_of_length(test_master_dtypes(), {1, 7, 31, 64, 5003, 40'009}));
VENTRIS_FOR_CASES(Exchange, cases_of_length(test_master_dtypes(), {1, 7, 40'009}));

TEST_P(MovingAverage, MatchesTheReferenceAndIsLeftByASkippedStep) {
  const DType dtype = GetParam().dtype;
  const int64_t n = GetParam().size.cols;
  const Buffer value = Buffer::random(1, n, dtype, 1);
  const Buffer before = Buffer::random(1, n, dtype, 2);
  struct Step {
    double decay;
    int64_t updates;
    double applied;  // 1: nothing changes
    int32_t skipped = 0;
  };
  for (const Step& step :
       {Step{0.9, 1, 2.0 / 11.0}, Step{0.9, 31, 32.0 / 41.0}, Step{0.9, 71, 72.0 / 81.0}, Step{0.9, 80, 0.9},
        Step{0.9, 81, 0.9}, Step{0.0, 5, 0.0}, Step{0.9, 31, 1.0, 1}, Step{0.5, 7, 1.0, 1}}) {
    SCOPED_TRACE(::testing::Message() << step.decay << " after " << step.updates << " updates");
    const MatrixOperand device_value(value), average(before), again(before);
    const ArrayOperand<StepOutcome> outcome(
        {{.loss = 1.0, .nll = 1.0, .gradient_norm = 1.0, .updates = step.updates, .skipped = step.skipped}});
    moving_average(test_context(), {.value = device_value.view(),
                                    .average = average.view(),
                                    .decay = step.decay,
                                    .outcome = outcome.data()});
    moving_average(other_context(), {.value = device_value.view(),
                                     .average = again.view(),
                                     .decay = step.decay,
                                     .outcome = outcome.data()});
    expect_same_bits("average again", average, again);
    expect_same_bits("value", device_value, value);
    if (step.skipped != 0) {
      expect_same_bits("average", average, before);
      continue;
    }
    std::vector<double> expected;
    for (int64_t i = 0; i < n; ++i)
      expected.push_back(step.applied * before.get(i) + (1.0 - step.applied) * value.get(i));
    expect_close("average", average, expected, dtype);
  }
}

TEST_P(Exchange, GivesEachTheOther) {
  const DType dtype = GetParam().dtype;
  const int64_t n = GetParam().size.cols;
  const Buffer a = Buffer::random(1, n, dtype, 1);
  const Buffer b = Buffer::random(1, n, dtype, 2);
  const MatrixOperand device_a(a), device_b(b);
  exchange(test_context(), {.a = device_a.view(), .b = device_b.view()});
  expect_same_bits("a", device_a, b);
  expect_same_bits("b", device_b, a);
}

}  // namespace
}  // namespace ventris::testing
