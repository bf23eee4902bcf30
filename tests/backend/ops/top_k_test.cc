// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/top_k.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "tests/support/log_sum_exp.h"
#include "tests/support/operands.h"
#include "tests/support/operation_case.h"

namespace ventris::testing {
namespace {

/// Logits of the size, of which all columns but the last two count.
const std::vector<Size> kSizes = {{3, 3}, {3, 5}, {23, 65}, {3, 66}, {3, 67}, {7, 131, 3}, {2, 2600}};
constexpr int64_t kPadding = 2;

class LogSoftmaxTopK : public OperationTest {};
class LogSoftmaxTopKOfManyTokens : public OperationTest {};
class LogProbability : public OperationTest {};
VENTRIS_FOR_CASES(LogSoftmaxTopK, cases(test_dtypes(), kSizes));
VENTRIS_FOR_CASES(LogSoftmaxTopKOfManyTokens, cases(test_dtypes(), {{5, 213, 3}, {2, 502}}));
VENTRIS_FOR_CASES(LogProbability, cases(test_dtypes(), {{3, 5}, {7, 131, 3}, {2, 2600}}));

void expect_log_probability(float got, double expected) {
  EXPECT_NEAR(got, expected, 1e-4);
  EXPECT_TRUE(close(got, expected, tolerance_of(DType::kF32))) << got << ", expected " << expected;
}

/// Tokens that may not be returned, as the arguments have them: in any row, and in each. `begin` is empty
/// where there are no lists of rows.
struct Banned {
  std::vector<int32_t> everywhere;  // ended by -1
  std::vector<int32_t> tokens;
  std::vector<int32_t> begin;

  bool contains(int64_t row, int32_t token) const {
    const auto is = [&](int32_t banned) { return banned == token; };
    if (std::any_of(everywhere.begin(), everywhere.end(), is)) return true;
    if (begin.empty()) return false;
    const auto r = static_cast<size_t>(row);
    return std::any_of(tokens.begin() + begin[r], tokens.begin() + begin[r + 1], is);
  }
};

/// Sorts all tokens; the plain way.
void expect_top_k(const Buffer& logits, int64_t gap, int64_t vocab, int k, const Banned& banned) {
  SCOPED_TRACE(::testing::Message() << "k = " << k << (banned.begin.empty() ? "" : ", with bans of rows"));
  const int64_t rows = logits.view().rows;
  const auto count = static_cast<size_t>(rows * k);
  const MatrixOperand device_logits(logits, gap);
  const ArrayOperand<int32_t> everywhere(banned.everywhere), tokens(banned.tokens), begin(banned.begin);
  const ArrayOperand<float> values{std::vector<float>(count)};
  const ArrayOperand<int32_t> indices{std::vector<int32_t>(count)};
  const bool of_rows = !banned.begin.empty();
  const auto run = [&](Context& context) {
    log_softmax_top_k(context, {.logits = device_logits.view(),
                                .vocab = vocab,
                                .k = k,
                                .banned = banned.everywhere.empty() ? nullptr : everywhere.data(),
                                .row_banned = of_rows ? tokens.data() : nullptr,
                                .row_banned_begin = of_rows ? begin.data() : nullptr,
                                .values = values.data(),
                                .indices = indices.data()});
    return std::pair(values.get(), indices.get());
  };
  const auto [got_values, got_indices] = run(test_context());
  EXPECT_EQ(run(other_context()), std::pair(got_values, got_indices));
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<int32_t> allowed;
    for (int32_t w = 0; w < vocab; ++w) {
      if (!banned.contains(r, w)) allowed.push_back(w);
    }
    std::stable_sort(allowed.begin(), allowed.end(),
                     [&](int32_t a, int32_t b) { return logits.get(r, a) > logits.get(r, b); });
    const double normal = log_sum_exp(logits, r, vocab);
    for (size_t i = 0; i < static_cast<size_t>(k); ++i) {
      const size_t at = static_cast<size_t>(r * k) + i;
      if (i < allowed.size()) {
        ASSERT_EQ(got_indices[at], allowed[i]) << "row " << r << ", place " << i;
        expect_log_probability(got_values[at], logits.get(r, allowed[i]) - normal);
      } else {
        EXPECT_EQ(got_indices[at], -1);
        EXPECT_EQ(got_values[at], -std::numeric_limits<float>::infinity());
      }
    }
  }
}

TEST_P(LogSoftmaxTopK, MatchesASort) {
  const auto& [device, dtype, size, rate] = GetParam();
  const int64_t vocab = size.cols - kPadding;
  // bf16 has many equal values: their order counts.
  Buffer logits = Buffer::random(size.rows, size.cols, dtype, 11, 3.0);
  logits.set(1, logits.get(2));
  for (const int k : {1, 4, 10}) {
    if (k <= vocab) expect_top_k(logits, size.gap, vocab, k, {});
  }
  if (vocab < 3) return;
  const int k = static_cast<int>(std::min<int64_t>(vocab - 1, 8));
  Banned banned{.everywhere = {1, -1}, .tokens = {}, .begin = {}};
  expect_top_k(logits, size.gap, vocab, k, banned);
  banned.tokens = {0};  // of row 0; row 1 has two tokens left, and the others may have all
  for (int32_t w = 2; w + 1 < vocab; ++w) banned.tokens.push_back(w);
  banned.begin.assign(static_cast<size_t>(size.rows) + 1, static_cast<int32_t>(banned.tokens.size()));
  banned.begin[0] = 0, banned.begin[1] = 1;
  expect_top_k(logits, size.gap, vocab, k, banned);
}

TEST_P(LogSoftmaxTopKOfManyTokens, NeverReturnsTheBestTokensIfTheyAreBanned) {
  const auto& [device, dtype, size, rate] = GetParam();
  const int64_t vocab = size.cols - kPadding;
  const Buffer logits = Buffer::random(size.rows, size.cols, dtype, 12);
  std::vector<int32_t> tokens(static_cast<size_t>(vocab));
  std::iota(tokens.begin(), tokens.end(), 0);
  std::stable_sort(tokens.begin(), tokens.end(),
                   [&](int32_t a, int32_t b) { return logits.get(0, a) > logits.get(0, b); });
  expect_top_k(logits, size.gap, vocab, 6, {{tokens[0], tokens[1], 3, -1}, {}, {}});
}

TEST_P(LogSoftmaxTopKOfManyTokens, RowsInRisingAndFallingOrder) {
  const auto& [device, dtype, size, rate] = GetParam();
  const int64_t vocab = size.cols - kPadding;
  Buffer logits(size.rows, size.cols, dtype);
  for (int64_t i = 0; i < logits.size(); ++i) {
    const double step = i / size.cols % 2 == 0 ? 0.01 : -0.01;
    logits.set(i, static_cast<double>(i % size.cols) * step);
  }
  expect_top_k(logits, size.gap, vocab, static_cast<int>(std::min<int64_t>(vocab, 5)), {});
}

TEST_P(LogProbability, MatchesTheReference) {
  const auto& [device, dtype, size, rate] = GetParam();
  const int64_t vocab = size.cols - kPadding;
  const Buffer logits = Buffer::random(size.rows, size.cols, dtype, 14, 3.0);
  std::vector<int32_t> labels;
  for (int64_t t = 0; t < size.rows; ++t) labels.push_back(static_cast<int32_t>((2 + 131 * t) % vocab));
  const MatrixOperand device_logits(logits, size.gap);
  const ArrayOperand<int32_t> device_labels(labels);
  const ArrayOperand<float> result{std::vector<float>(labels.size())};
  log_probability(test_context(), {.logits = device_logits.view(),
                                   .labels = device_labels.data(),
                                   .vocab = vocab,
                                   .log_probabilities = result.data()});
  const std::vector<float> got = result.get();
  for (int64_t t = 0; t < size.rows; ++t) {
    const auto at = static_cast<size_t>(t);
    expect_log_probability(got[at], logits.get(t, labels[at]) - log_sum_exp(logits, t, vocab));
  }
}

}  // namespace
}  // namespace ventris::testing
