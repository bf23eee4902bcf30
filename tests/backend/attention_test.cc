// SPDX-License-Identifier: Apache-2.0
#include "backend/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "backend/context.h"
#include "tests/support/attention_problem.h"
#include "tests/support/finite_difference.h"
#include "tests/support/tolerance.h"

namespace ventris {
namespace {

using testing::Buffer;
using testing::some_dropout;

class AttentionOfDType : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(EachDType, AttentionOfDType,
                         ::testing::Values(DType::kF32, DType::kBF16, DType::kF64),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST_P(AttentionOfDType, DecodingEqualsTheLastRowOfCausalAttention) {
  Context context({});
  const std::vector<int> lengths = {1, 9, 33};
  testing::AttentionProblem p(lengths, lengths, 3, 21, GetParam(), true);
  p.forward(context);
  // The caches hold the rows in reverse order; each hypothesis lists its own.
  const int64_t rows = p.key_rows;
  Buffer key(rows, p.width(), GetParam());
  Buffer value(rows, p.width(), GetParam());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < p.width(); ++c) {
      key.set((rows - 1 - r) * p.width() + c, p.key_value_matrix.get(r, c));
      value.set((rows - 1 - r) * p.width() + c, p.key_value_matrix.get(r, p.width() + c));
    }
  }
  Buffer query(3, p.width(), GetParam());
  std::vector<int32_t> key_rows;
  std::vector<int32_t> key_begin = {0};
  for (int s = 0; s < 3; ++s) {
    for (int32_t r = p.key_offsets[s]; r < p.key_offsets[s + 1]; ++r) {
      key_rows.push_back(static_cast<int32_t>(rows) - 1 - r);
    }
    key_begin.push_back(static_cast<int32_t>(key_rows.size()));
    for (int64_t c = 0; c < p.width(); ++c)
      query.set(s * p.width() + c, p.query_matrix.get(p.key_offsets[s + 1] - 1, c));
  }
  Buffer out(3, p.width(), GetParam());
  Buffer probabilities(3, 40, master_dtype(GetParam()));
  attention_decode(context, {.query = query.view(),
                             .key = key.view(),
                             .value = value.view(),
                             .key_rows = key_rows.data(),
                             .key_begin = key_begin.data(),
                             .heads = p.heads,
                             .scale = p.scale(),
                             .out = out.view(),
                             .probabilities = probabilities.view()});
  for (int s = 0; s < 3; ++s) {
    for (int64_t c = 0; c < p.width(); ++c) {
      const double expected = p.out.get(p.key_offsets[s + 1] - 1, c);
      EXPECT_TRUE(testing::close(out.get(s, c), expected, testing::tolerance_of(GetParam())))
          << out.get(s, c) << ", expected " << expected;
    }
    double sum = 0.0;
    for (int64_t j = 0; j < 40; ++j) {
      if (j >= lengths[static_cast<size_t>(s)]) {
        EXPECT_EQ(probabilities.get(s, j), 0.0);
      }
      sum += probabilities.get(s, j);
    }
    EXPECT_NEAR(sum, 1.0, 1e-5);
  }
}

TEST(Attention, GivesTheWorkedExampleOfTheTextbooks) {
  const double inputs[3][4] = {{1, 0, 1, 0}, {0, 2, 0, 2}, {1, 1, 1, 1}};
  const double weights[3][4][3] = {{{1, 0, 1}, {1, 0, 0}, {0, 0, 1}, {0, 1, 1}},
                                   {{0, 0, 1}, {1, 1, 0}, {0, 1, 0}, {1, 1, 0}},
                                   {{0, 2, 0}, {0, 3, 0}, {1, 0, 3}, {1, 1, 0}}};
  for (DType dtype : {DType::kF32, DType::kF64}) {
    std::vector<Buffer> projected(3, Buffer(3, 3, dtype));  // query, key, value
    for (int which = 0; which < 3; ++which) {
      for (int t = 0; t < 3; ++t) {
        for (int c = 0; c < 3; ++c) {
          double sum = 0.0;
          for (int i = 0; i < 4; ++i) sum += inputs[t][i] * weights[which][i][c];
          projected[static_cast<size_t>(which)].set(t * 3 + c, sum);
        }
      }
    }
    Context context({});
    const int32_t offsets[] = {0, 3};
    Buffer out(3, 3, dtype);
    Buffer log_sum_exp(1, 3, dtype);
    Buffer probabilities(3, 3, dtype);
    attention_forward(context, {.query = projected[0].view(),
                                .key = projected[1].view(),
                                .value = projected[2].view(),
                                .query_offsets = offsets,
                                .key_offsets = offsets,
                                .sentences = 1,
                                .heads = 1,
                                .scale = 1.0F,
                                .work = {},
                                .out = out.view(),
                                .log_sum_exp = log_sum_exp.view(),
                                .probabilities = probabilities.view()});
    const double scores[3][3] = {{2, 4, 4}, {4, 16, 12}, {4, 12, 10}};
    const double first_row[] = {0.06337894, 0.46831053, 0.46831053};
    const double first_output[] = {1.93662106, 6.68310531, 1.59506841};
    for (int t = 0; t < 3; ++t) {
      for (int j = 0; j < 3; ++j) {
        EXPECT_NEAR(std::log(probabilities.get(t, j)) + log_sum_exp.get(t), scores[t][j], 1e-5);
      }
      EXPECT_NEAR(probabilities.get(0, t), first_row[t], 1e-6);
      EXPECT_NEAR(out.get(0, t), first_output[t], 1e-6);
    }
  }
}

TEST(Attention, GradientsAgreeWithFiniteDifferences) {
  Context context({});
  for (bool causal : {false, true}) {
    for (bool dropped : {false, true}) {
      const std::vector<int> query_lengths = {1, 5, 0, 7};
      testing::AttentionProblem p(query_lengths, causal ? query_lengths : std::vector<int>{3, 1, 2, 11}, 2, 3,
                                  DType::kF64, causal);
      if (dropped) p.dropout = some_dropout(0.25F);
      p.forward(context);
      p.backward(context);
      const auto loss = [&] {
        p.forward(context);
        double sum = 0.0;
        for (int64_t i = 0; i < p.query_offsets.back() * p.width(); ++i) sum += p.out.get(i) * p.d_out.get(i);
        return sum;
      };
      testing::check_gradient("query", loss, p.query_matrix, p.d_query);
      testing::check_gradient("key and value", loss, p.key_value_matrix, p.d_key_value, 1e-7, 400);
    }
  }
}

}  // namespace
}  // namespace ventris
