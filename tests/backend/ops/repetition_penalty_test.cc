// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/repetition_penalty.h"

#include <algorithm>

#include "tests/support/operands.h"
#include "tests/support/operation_case.h"

namespace ventris::testing {
namespace {

class RepetitionPenalty : public OperationTest {};
VENTRIS_FOR_CASES(RepetitionPenalty, cases(test_dtypes(), {{3, 40}, {3, 150, 5}}));

TEST_P(RepetitionPenalty, MatchesTheReferenceInTheListsAlone) {
  const auto& [device, dtype, size, rate] = GetParam();
  const Buffer before = Buffer::random(size.rows, size.cols, dtype, 1, 2.0);
  std::vector<int32_t> tokens = {3, 5, 39, 0};  // of row 0; row 1 has none
  const auto first = static_cast<int32_t>(tokens.size());
  for (int32_t w = 0; w < std::min<int64_t>(size.cols, 100); ++w) tokens.push_back(w);
  const std::vector<int32_t> begin = {0, first, first, static_cast<int32_t>(tokens.size())};
  const ArrayOperand<int32_t> device_tokens(tokens), device_begin(begin);
  for (const float penalty : {2.0F, 1.5F}) {
    SCOPED_TRACE(penalty);
    std::vector<double> expected = to_doubles(before);
    for (int64_t r = 0; r < size.rows; ++r) {
      for (int32_t i = begin[static_cast<size_t>(r)]; i < begin[static_cast<size_t>(r) + 1]; ++i) {
        double& value = expected[static_cast<size_t>(r * size.cols + tokens[static_cast<size_t>(i)])];
        value = value > 0.0 ? value / penalty : value * penalty;
      }
    }
    const MatrixOperand logits(before, size.gap);
    repetition_penalty(test_context(), {.logits = logits.view(),
                                        .tokens = device_tokens.data(),
                                        .begin = device_begin.data(),
                                        .penalty = penalty});
    // By 2 it is exact in every dtype.
    const Tolerance exact = {0.0, 0.0};
    expect_close("logits", logits.get(), expected, penalty == 2.0F ? exact : tolerance_of(dtype));
  }
}

}  // namespace
}  // namespace ventris::testing
