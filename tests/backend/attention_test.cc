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

using Problem = testing::AttentionProblem;
using testing::Buffer;
using testing::some_dropout;

/// The multiplier of one attention weight, straight from the definition in backend/dropout.h.
double mask_of(const DropoutKey& key, int64_t query_row, int64_t key_index, int head) {
  if (!key.active()) return 1.0;
  const auto bits = dropout_bits(key, static_cast<uint32_t>(query_row), static_cast<uint32_t>(key_index / 8),
                                 static_cast<uint32_t>(head));
  return bits[static_cast<size_t>(key_index % 8)] < key.threshold() ? 0.0 : key.scale();
}

struct Reference {
  std::vector<double> out;
  std::vector<double> d_query;
  std::vector<double> d_key;
  std::vector<double> d_value;
};

/// The formulas of backend/attention.h, element by element in f64.
Reference reference(const Problem& p) {
  const int64_t width = p.width();
  Reference r;
  r.out.assign(static_cast<size_t>(p.query_rows * width), 0.0);
  r.d_query = r.out;
  r.d_key.assign(static_cast<size_t>(p.key_rows * width), 0.0);
  r.d_value = r.d_key;
  for (int s = 0; s < p.sentences(); ++s) {
    for (int h = 0; h < p.heads; ++h) {
      const int64_t k0 = p.key_offsets[s];
      for (int64_t t = p.query_offsets[s]; t < p.query_offsets[s + 1]; ++t) {
        const int64_t keys = p.causal ? t - k0 + 1 : p.key_offsets[s + 1] - k0;
        const auto q = [&](int c) { return p.query_matrix.get(t, h * p.d_head + c); };
        const auto k = [&](int64_t j, int c) { return p.key_value_matrix.get(k0 + j, h * p.d_head + c); };
        const auto v = [&](int64_t j, int c) {
          return p.key_value_matrix.get(k0 + j, width + h * p.d_head + c);
        };
        const auto dy = [&](int c) { return p.d_out.get(t, h * p.d_head + c); };
        const auto at = [&](int64_t row, int c) {
          return static_cast<size_t>(row * width + h * p.d_head + c);
        };
        std::vector<double> probability(static_cast<size_t>(keys));
        double sum = 0.0;
        for (int64_t j = 0; j < keys; ++j) {
          double score = 0.0;
          for (int c = 0; c < p.d_head; ++c) score += q(c) * k(j, c);
          sum += probability[j] = std::exp(p.scale() * score);
        }
        std::vector<double> d_weighted(static_cast<size_t>(keys));
        double d = 0.0;
        for (int64_t j = 0; j < keys; ++j) {
          probability[j] /= sum;
          const double mask = mask_of(p.dropout, t, j, h);
          double d_probability = 0.0;
          for (int c = 0; c < p.d_head; ++c) {
            r.out[at(t, c)] += mask * probability[j] * v(j, c);
            r.d_value[at(k0 + j, c)] += mask * probability[j] * dy(c);
            d_probability += mask * dy(c) * v(j, c);
          }
          d_weighted[j] = d_probability;
          d += probability[j] * d_probability;
        }
        for (int64_t j = 0; j < keys; ++j) {
          const double d_score = p.scale() * probability[j] * (d_weighted[j] - d);
          for (int c = 0; c < p.d_head; ++c) {
            r.d_query[at(t, c)] += d_score * k(j, c);
            r.d_key[at(k0 + j, c)] += d_score * q(c);
          }
        }
      }
    }
  }
  return r;
}

/// Compares columns [first, first + cols) of `got` with a matrix of `cols` columns, relative to its largest
/// element.
void expect_close(const std::string& name, const Buffer& got, int64_t rows, int64_t first, int64_t cols,
                  const std::vector<double>& expected, DType dtype) {
  testing::Tolerance tolerance = testing::tolerance_of(dtype);
  double largest = 1.0;
  for (double e : expected) largest = std::max(largest, std::abs(e));
  tolerance.absolute *= largest;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      const double e = expected[static_cast<size_t>(r * cols + c)];
      ASSERT_TRUE(testing::close(got.get(r, first + c), e, tolerance))
          << name << " [" << r << ", " << c << "]: " << got.get(r, first + c) << ", expected " << e;
    }
  }
}

void expect_matches_reference(Problem& p, Context& context) {
  p.forward(context);
  p.backward(context);
  const Reference expected = reference(p);
  expect_close("out", p.out, p.query_rows, 0, p.width(), expected.out, p.dtype);
  expect_close("d_query", p.d_query, p.query_rows, 0, p.width(), expected.d_query, p.dtype);
  expect_close("d_key", p.d_key_value, p.key_rows, 0, p.width(), expected.d_key, p.dtype);
  expect_close("d_value", p.d_key_value, p.key_rows, p.width(), p.width(), expected.d_value, p.dtype);
}

class AttentionOfDType : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(EachDType, AttentionOfDType,
                         ::testing::Values(DType::kF32, DType::kBF16, DType::kF64),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST_P(AttentionOfDType, CrossAttentionMatchesTheFormulas) {
  Context context({});
  for (bool dropped : {false, true}) {
    for (int d_head : {1, 5, 16, 32, 37, 64}) {
      Problem p({5, 0, 1, 13, 3, 31}, {7, 4, 1, 0, 17, 29}, 3, d_head, GetParam(), false);
      if (dropped) p.dropout = some_dropout();
      SCOPED_TRACE(d_head);
      expect_matches_reference(p, context);
    }
  }
}

TEST_P(AttentionOfDType, CausalSelfAttentionMatchesTheFormulas) {
  Context context({});
  for (bool dropped : {false, true}) {
    for (int d_head : {1, 7, 32, 64, 80}) {
      const std::vector<int> lengths = {1, 2, 0, 17, 41, 16};
      Problem p(lengths, lengths, 2, d_head, GetParam(), true);
      if (dropped) p.dropout = some_dropout();
      SCOPED_TRACE(d_head);
      expect_matches_reference(p, context);
    }
  }
}

TEST_P(AttentionOfDType, SentencesLongerThanATileMatchTheFormulas) {
  Context context({});
  for (bool causal : {false, true}) {
    Problem p({131, 64, 65}, {131, 64, 65}, 1, 32, GetParam(), causal);
    p.dropout = some_dropout();
    expect_matches_reference(p, context);
  }
  Problem cross({67, 3}, {2, 193}, 1, 8, GetParam(), false);
  expect_matches_reference(cross, context);
}

TEST_P(AttentionOfDType, DecodingEqualsTheLastRowOfCausalAttention) {
  Context context({});
  const std::vector<int> lengths = {1, 9, 33};
  Problem p(lengths, lengths, 3, 21, GetParam(), true);
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
      Problem p(query_lengths, causal ? query_lengths : std::vector<int>{3, 1, 2, 11}, 2, 3, DType::kF64,
                causal);
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
