// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/log_probability_sum.h"

#include <limits>

#include "tests/support/log_sum_exp.h"
#include "tests/support/operands.h"
#include "tests/support/operation_case.h"

namespace ventris::testing {
namespace {

/// `cols` tokens; the logits have two columns more, and the sum has one.
class LogProbabilitySum : public OperationTest {};
VENTRIS_FOR_CASES(LogProbabilitySum,
                  cases(test_dtypes(), {{3, 1, 2}, {9, 17}, {3, 131, 2}, {3, 700, 2}, {9, 1500}}));

TEST_P(LogProbabilitySum, MatchesTheReferenceAndKeepsWhatIsBeyond) {
  const auto& [device, dtype, size, rate] = GetParam();
  const Buffer before = Buffer::random(size.rows, size.cols + 1, master_dtype(dtype), 3);
  const MatrixOperand sum(before);
  std::vector<double> probabilities(static_cast<size_t>(before.size()));
  for (const bool first : {true, false}) {
    SCOPED_TRACE(first ? "the first" : "the second");
    const Buffer logits = Buffer::random(size.rows, size.cols + 2, dtype, first ? 1 : 2, 3.0);
    const MatrixOperand device_logits(logits, size.gap);
    log_probability_sum(
        test_context(),
        {.logits = device_logits.view(), .vocab = size.cols, .first = first, .sum = sum.view()});
    std::vector<double> expected = to_doubles(before);
    for (int64_t r = 0; r < size.rows; ++r) {
      const double normal = log_sum_exp(logits, r, size.cols);
      for (int64_t w = 0; w < size.cols; ++w) {
        const auto at = static_cast<size_t>(r * (size.cols + 1) + w);
        probabilities[at] += std::exp(logits.get(r, w) - normal);
        expected[at] = std::log(probabilities[at]);
      }
    }
    const Buffer got = sum.get();
    expect_close("sum", got, expected, {1e-4, 0.0});
    expect_close("sum", got, expected, tolerance_of(DType::kF32));
    for (int64_t r = 0; r < size.rows; ++r) EXPECT_EQ(got.get(r, size.cols), before.get(r, size.cols));
  }
}

TEST(LogProbabilitySumOfZeros, StaysZero) {
  Buffer logits(1, 3, DType::kF32);
  logits.set(1, -std::numeric_limits<double>::infinity());
  const MatrixOperand device_logits(logits), sum(1, 3, DType::kF32);
  for (const bool first : {true, false}) {
    log_probability_sum(test_context(),
                        {.logits = device_logits.view(), .vocab = 3, .first = first, .sum = sum.view()});
  }
  EXPECT_EQ(sum.get().get(1), -std::numeric_limits<double>::infinity());
  EXPECT_NEAR(sum.get().get(0), 0.0, 1e-6);
}

}  // namespace
}  // namespace ventris::testing
