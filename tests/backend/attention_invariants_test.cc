// SPDX-License-Identifier: Apache-2.0
#include "backend/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "backend/context.h"
#include "tests/support/attention_problem.h"

namespace ventris {
namespace {

using testing::Buffer;
using testing::kPosition;
using testing::some_dropout;

TEST(Attention, ALaterTokenOfACausalSentenceChangesNothingBitForBit) {
  Context context({});
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    const std::vector<int> lengths = {70, 33};
    testing::AttentionProblem p(lengths, lengths, 2, 32, dtype, true);
    p.dropout = some_dropout();
    p.forward(context);
    const auto before = values_of(p.out);
    const int64_t changed = 70 + 20;
    for (int64_t c = 0; c < p.width(); ++c) {
      p.query_matrix.set(changed * p.width() + c, 9.0);
      p.key_value_matrix.set(changed * 2 * p.width() + c, -8.0);
      p.key_value_matrix.set((changed * 2 + 1) * p.width() + c, 7.0);
    }
    p.forward(context);
    const auto after = values_of(p.out);
    for (int64_t i = 0; i < changed * p.width(); ++i) ASSERT_EQ(before[i], after[i]) << i;
    EXPECT_NE(before[changed * p.width()], after[changed * p.width()]);
  }
}

TEST(Attention, AnotherSentenceAndPaddingRowsChangeNothingBitForBit) {
  Context context({});
  for (bool causal : {false, true}) {
    testing::AttentionProblem p({9, 21, 4}, {9, 21, 4}, 2, 32, DType::kF32, causal);
    p.dropout = some_dropout();
    p.forward(context);
    p.backward(context);
    const int64_t w = p.width();
    const auto out = rows_of(p.out, w, 9, 30);
    const auto d_query = rows_of(p.d_query, w, 9, 30);
    const auto d_key_value = rows_of(p.d_key_value, 2 * w, 9, 30);
    for (int64_t r = 0; r < p.query_rows; ++r) {
      if (r >= 9 && r < 30) continue;
      for (int64_t c = 0; c < w; ++c) {
        const double value = r < 34 ? 3.0 : std::nan("");
        p.query_matrix.set(r * w + c, value);
        p.d_out.set(r * w + c, value);
        p.key_value_matrix.set(r * 2 * w + c, value);
        p.key_value_matrix.set((r * 2 + 1) * w + c, value);
      }
    }
    p.forward(context);
    p.backward(context);
    EXPECT_EQ(out, rows_of(p.out, w, 9, 30));
    EXPECT_EQ(d_query, rows_of(p.d_query, w, 9, 30));
    EXPECT_EQ(d_key_value, rows_of(p.d_key_value, 2 * w, 9, 30));
    for (double zero : rows_of(p.d_query, w, 34, 37)) EXPECT_EQ(zero, 0.0);
    for (double zero : rows_of(p.d_key_value, 2 * w, 34, 37)) EXPECT_EQ(zero, 0.0);
  }
}

TEST(Attention, AQueryWithoutKeysGetsZeros) {
  Context context({});
  testing::AttentionProblem p({4, 2}, {0, 3}, 2, 8, DType::kF32, false);
  p.forward(context);
  p.backward(context);
  for (double zero : rows_of(p.out, p.width(), 0, 4)) EXPECT_EQ(zero, 0.0);
  for (double zero : rows_of(p.d_query, p.width(), 0, 4)) EXPECT_EQ(zero, 0.0);
}

TEST(Attention, DropoutOfRateZeroIsNoDropoutAndAKeyAlwaysGivesTheSameMask) {
  Context context({});
  testing::AttentionProblem p({19}, {23}, 2, 16, DType::kF32, false);
  p.forward(context);
  const auto plain = values_of(p.out);
  p.dropout = some_dropout(0.0F);
  p.forward(context);
  EXPECT_EQ(plain, values_of(p.out));
  p.dropout = some_dropout(0.5F);
  p.forward(context);
  const auto dropped = values_of(p.out);
  EXPECT_NE(plain, dropped);
  p.forward(context);
  EXPECT_EQ(dropped, values_of(p.out));
  using Position = DropoutPosition;
  for (auto change :
       {+[](DropoutKey&, Position&p) { ++p.step; }, +[](DropoutKey&k, Position&) { ++k.seed; },
        +[](DropoutKey&k, Position&) { k.place += 0x100; }, +[](DropoutKey&, Position&p) { ++p.row_base; }}) {
    p.dropout = some_dropout(0.5F);
    Position position = kPosition;
    change(p.dropout, position);
    p.dropout.position = &position;
    p.forward(context);
    EXPECT_NE(dropped, values_of(p.out));
  }
}

TEST(Attention, ProbabilitiesSumToOneAndIgnoreDropout) {
  Context context({});
  const std::vector<int> lengths = {5, 70, 1};
  for (bool causal : {false, true}) {
    testing::AttentionProblem p(lengths, lengths, 3, 16, DType::kF32, causal);
    p.dropout = some_dropout(0.5F);
    Buffer probabilities(p.query_rows, 3 * 72, DType::kF32);
    for (int64_t i = 0; i < probabilities.size(); ++i) probabilities.set(i, 5.0);
    p.forward(context, probabilities.view());
    for (int s = 0; s < p.sentences(); ++s) {
      for (int64_t t = p.query_offsets[s]; t < p.query_offsets[s + 1]; ++t) {
        for (int h = 0; h < 3; ++h) {
          const int64_t keys = causal ? t - p.query_offsets[s] + 1 : lengths[static_cast<size_t>(s)];
          double sum = 0.0;
          for (int64_t j = 0; j < keys; ++j) sum += probabilities.get(t, h * 72 + j);
          EXPECT_NEAR(sum, 1.0, 1e-5);
          for (int64_t j = keys; j < 72; ++j) EXPECT_EQ(probabilities.get(t, h * 72 + j), 0.0);
        }
      }
    }
  }
}

TEST(Attention, LargeScoresDoNotOverflow) {
  Context context({});
  testing::AttentionProblem p({6}, {40}, 1, 16, DType::kF32, false);
  for (int64_t i = 0; i < p.query_matrix.size(); ++i) p.query_matrix.set(i, 60.0 * p.query_matrix.get(i));
  p.forward(context);
  p.backward(context);
  for (double x : rows_of(p.out, p.width(), 0, 6)) ASSERT_TRUE(std::isfinite(x));
  for (double x : values_of(p.d_key_value)) ASSERT_TRUE(std::isfinite(x));
}

TEST(Attention, ResultsDoNotDependOnTheNumberOfThreads) {
  const std::vector<int> lengths = {5, 70, 1, 33, 0, 12};
  std::vector<std::vector<double>> results;
  for (int threads : {1, 2, 3}) {
    Context context({.threads = threads});
    testing::AttentionProblem p(lengths, lengths, 3, 32, DType::kF32, true);
    p.dropout = some_dropout();
    p.forward(context);
    p.backward(context);
    auto all = values_of(p.out);
    for (const Buffer* buffer : {&p.log_sum_exp, &p.d_query, &p.d_key_value}) {
      const auto values = values_of(*buffer);
      all.insert(all.end(), values.begin(), values.end());
    }
    results.push_back(all);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST(Attention, RefusesShapesThatDoNotFit) {
  Context context({});
  testing::AttentionProblem p({4}, {5}, 2, 8, DType::kF32, true);
  EXPECT_THROW(p.forward(context), Error);  // causal with unequal offsets
  testing::AttentionProblem narrow({4}, {5}, 2, 8, DType::kF32, false);
  Buffer probabilities(narrow.query_rows, 2 * 4, DType::kF32);
  EXPECT_THROW(narrow.forward(context, probabilities.view()), Error);
  narrow.dropout = {.rate = 0.5F, .place = 3};
  EXPECT_THROW(narrow.forward(context), Error);
}

}  // namespace
}  // namespace ventris
