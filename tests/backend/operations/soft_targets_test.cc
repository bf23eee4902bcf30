// SPDX-License-Identifier: Apache-2.0
#include "backend/soft_targets.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/support/operands.h"
#include "tests/support/operation_case.h"

namespace ventris::testing {
namespace {

constexpr int64_t kFirstTargetRow = 3;
constexpr int64_t kPaddingToken = 2;  // columns that do not count

/// Scores of the size, of which all columns but the last two and all rows but the last one count.
class SoftTargets : public OperationTest {};
VENTRIS_FOR_CASES(SoftTargets,
                  cases(test_dtypes(), {{2, 3}, {4, 9, 3}, {3, 66}, {5, 131, 5}, {3, 258}, {3, 2602, 6}}));

struct Listed {
  std::vector<int32_t> indices;  // [rows, k]; -7 where nothing was written
  Buffer probabilities;
};

Listed run(const Buffer& scores, int64_t gap, int64_t vocab, int k, bool are_logits, float temperature) {
  const int64_t rows = scores.view().rows;
  const DType master = are_logits ? master_dtype(scores.view().dtype) : scores.view().dtype;
  const MatrixOperand device_scores(scores, gap), probabilities(rows, k, master, 2);
  const ArrayOperand<int32_t> indices(std::vector<int32_t>(static_cast<size_t>(rows * k), -7));
  const ArrayOperand<int32_t> tokens({static_cast<int32_t>(kFirstTargetRow + rows - 1)});
  soft_targets(test_context(), {.scores = device_scores.view(),
                                .are_logits = are_logits,
                                .temperature = temperature,
                                .first_row = kFirstTargetRow,
                                .tokens = tokens.data(),
                                .vocab = vocab,
                                .k = k,
                                .indices = indices.data(),
                                .probabilities = probabilities.view()});
  return {indices.get(), probabilities.get()};
}

/// Sorts all tokens; the plain way.
void expect_most_probable(const Buffer& scores, int64_t gap, int64_t vocab, int k, bool are_logits,
                          float temperature) {
  SCOPED_TRACE(::testing::Message() << "k " << k << (are_logits ? ", logits" : "") << ", T " << temperature);
  const int64_t rows = scores.view().rows;
  const Listed got = run(scores, gap, vocab, k, are_logits, temperature);
  std::vector<int32_t> order(static_cast<size_t>(vocab));
  for (int64_t r = 0; r < rows; ++r) {
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return scores.get(r, a) > scores.get(r, b); });
    const auto mass = [&](int64_t i) {
      const double score = scores.get(r, order[static_cast<size_t>(i)]);
      return are_logits ? std::exp((score - scores.get(r, order[0])) / static_cast<double>(temperature))
                        : score;
    };
    double sum = 0.0;
    for (int64_t i = 0; i < k; ++i) sum += mass(i);
    for (int64_t i = 0; i < k; ++i) {
      const int32_t index = got.indices[static_cast<size_t>(r * k + i)];
      const double probability = got.probabilities.get(r, i);
      if (r + 1 == rows) {
        ASSERT_EQ(index, -7) << "a row that does not count";
        ASSERT_TRUE(std::isnan(probability)) << "a row that does not count";
        continue;
      }
      ASSERT_EQ(index, order[static_cast<size_t>(i)]) << "row " << r << ", place " << i;
      ASSERT_TRUE(close(probability, mass(i) / sum, {1e-7, 1e-5}))
          << "row " << r << ", place " << i << ": " << probability << ", expected " << mass(i) / sum;
    }
  }
}

TEST_P(SoftTargets, AreTheMostProbableTokensAndShareTheirProbability) {
  const auto& [device, dtype, size, rate] = GetParam();
  const int64_t vocab = size.cols - kPaddingToken;
  // bf16 has many equal values: their order counts.
  Buffer logits = Buffer::random(size.rows, size.cols, dtype, 11, 3.0);
  logits.set(0, logits.get(1));
  for (const int k : {1, 8, static_cast<int>(std::min<int64_t>(vocab, kMostSoftTargets))}) {
    if (k > vocab) continue;
    for (const float temperature : {1.0F, 2.5F})
      expect_most_probable(logits, size.gap, vocab, k, true, temperature);
  }
}

TEST_P(SoftTargets, OfProbabilities) {
  const auto& [device, dtype, size, rate] = GetParam();
  const int64_t vocab = size.cols - kPaddingToken;
  Buffer scores = Buffer::random(size.rows, size.cols, master_dtype(dtype), 12);
  for (int64_t i = 0; i < scores.size(); ++i) scores.set(i, std::abs(scores.get(i)));
  scores.set(0, scores.get(1));
  for (const int k : {1, 8, static_cast<int>(std::min<int64_t>(vocab, kMostSoftTargets))})
    if (k <= vocab) expect_most_probable(scores, size.gap, vocab, k, false, 2.0F);
}

TEST_P(SoftTargets, NotANumberReachesTheTargets) {
  const auto& [device, dtype, size, rate] = GetParam();
  const int64_t vocab = size.cols - kPaddingToken;
  for (const bool are_logits : {true, false}) {
    for (const int64_t where : {int64_t{0}, vocab - 1}) {
      Buffer scores = Buffer::random(size.rows, size.cols, are_logits ? dtype : master_dtype(dtype), 13);
      scores.set(where, std::numeric_limits<double>::quiet_NaN());
      const Listed got = run(scores, size.gap, vocab, 1, are_logits, 1.0F);
      EXPECT_EQ(got.indices[0], where);
      EXPECT_TRUE(std::isnan(got.probabilities.get(0)));
    }
  }
}

}  // namespace
}  // namespace ventris::testing
