#include "backend/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "backend/context.h"
#include "tests/support/device_buffer.h"
#include "tests/support/finite_difference.h"
#include "tests/support/tolerance.h"

namespace ventris {
namespace {

using testing::Buffer;

std::vector<int32_t> offsets_of(const std::vector<int>& lengths) {
  std::vector<int32_t> offsets = {0};
  for (int length : lengths) offsets.push_back(offsets.back() + length);
  return offsets;
}

/// Attention over random packed sentences; query, key and value are column blocks of one matrix where
/// `fused`.
struct Problem {
  Problem(std::vector<int> query_lengths, std::vector<int> key_lengths, int heads, int d_head, DType dtype,
          bool causal, int padding = 3)
      : heads(heads),
        d_head(d_head),
        dtype(dtype),
        causal(causal),
        query_offsets(offsets_of(query_lengths)),
        key_offsets(offsets_of(key_lengths)),
        query_rows(query_offsets.back() + padding),
        key_rows(key_offsets.back() + padding),
        query_matrix(Buffer::random(query_rows, width(), dtype, 1)),
        key_value_matrix(Buffer::random(key_rows, 2 * width(), dtype, 2)),
        d_out(Buffer::random(query_rows, width(), dtype, 3)),
        out(query_rows, width(), dtype),
        log_sum_exp(heads, query_rows, master_dtype(dtype)),
        d_query(query_rows, width(), dtype),
        d_key_value(key_rows, 2 * width(), dtype) {}

  int64_t width() const { return int64_t{heads} * d_head; }
  int sentences() const { return static_cast<int>(query_offsets.size()) - 1; }
  float scale() const { return 1.0F / std::sqrt(static_cast<float>(d_head)); }
  ConstTensor key() const { return key_value_matrix.view().col_range(0, width()); }
  ConstTensor value() const { return key_value_matrix.view().col_range(width(), width()); }

  void forward(Context& context, Tensor probabilities = {}) {
    attention_forward(context, {.query = query_matrix.view(),
                                .key = key(),
                                .value = value(),
                                .query_offsets = query_offsets.data(),
                                .key_offsets = key_offsets.data(),
                                .sentences = sentences(),
                                .heads = heads,
                                .causal = causal,
                                .scale = scale(),
                                .dropout = dropout,
                                .out = out.view(),
                                .log_sum_exp = log_sum_exp.view(),
                                .probabilities = probabilities});
  }
  void backward(Context& context) {
    attention_backward(context, {.query = query_matrix.view(),
                                 .key = key(),
                                 .value = value(),
                                 .out = out.view(),
                                 .log_sum_exp = log_sum_exp.view(),
                                 .d_out = d_out.view(),
                                 .query_offsets = query_offsets.data(),
                                 .key_offsets = key_offsets.data(),
                                 .sentences = sentences(),
                                 .heads = heads,
                                 .causal = causal,
                                 .scale = scale(),
                                 .dropout = dropout,
                                 .d_query = d_query.view(),
                                 .d_key = d_key_value.view().col_range(0, width()),
                                 .d_value = d_key_value.view().col_range(width(), width())});
  }

  int heads;
  int d_head;
  DType dtype;
  bool causal;
  std::vector<int32_t> query_offsets;
  std::vector<int32_t> key_offsets;
  int64_t query_rows;
  int64_t key_rows;
  Buffer query_matrix;
  Buffer key_value_matrix;  // keys, then values
  Buffer d_out;
  Buffer out;
  Buffer log_sum_exp;
  Buffer d_query;
  Buffer d_key_value;
  DropoutKey dropout;
};

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

const DropoutPosition kPosition = {.step = 7, .row_base = 1000};

DropoutKey some_dropout(float rate = 0.3F) {
  return {.rate = rate, .seed = 0x123456789ABCDEFULL, .place = 0x500, .position = &kPosition};
}

std::vector<double> values_of(const Buffer& buffer) {
  std::vector<double> values(static_cast<size_t>(buffer.size()));
  for (int64_t i = 0; i < buffer.size(); ++i) values[static_cast<size_t>(i)] = buffer.get(i);
  return values;
}

std::vector<double> rows_of(const Buffer& buffer, int64_t cols, int64_t begin, int64_t end) {
  const std::vector<double> values = values_of(buffer);
  return {values.begin() + begin * cols, values.begin() + end * cols};
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

TEST(Attention, ALaterTokenOfACausalSentenceChangesNothingBitForBit) {
  Context context({});
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    const std::vector<int> lengths = {70, 33};
    Problem p(lengths, lengths, 2, 32, dtype, true);
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
    Problem p({9, 21, 4}, {9, 21, 4}, 2, 32, DType::kF32, causal);
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
  Problem p({4, 2}, {0, 3}, 2, 8, DType::kF32, false);
  p.forward(context);
  p.backward(context);
  for (double zero : rows_of(p.out, p.width(), 0, 4)) EXPECT_EQ(zero, 0.0);
  for (double zero : rows_of(p.d_query, p.width(), 0, 4)) EXPECT_EQ(zero, 0.0);
}

TEST(Attention, DropoutOfRateZeroIsNoDropoutAndAKeyAlwaysGivesTheSameMask) {
  Context context({});
  Problem p({19}, {23}, 2, 16, DType::kF32, false);
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
    Problem p(lengths, lengths, 3, 16, DType::kF32, causal);
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
  Problem p({6}, {40}, 1, 16, DType::kF32, false);
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
    Problem p(lengths, lengths, 3, 32, DType::kF32, true);
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
  Problem p({4}, {5}, 2, 8, DType::kF32, true);
  EXPECT_THROW(p.forward(context), Error);  // causal with unequal offsets
  Problem narrow({4}, {5}, 2, 8, DType::kF32, false);
  Buffer probabilities(narrow.query_rows, 2 * 4, DType::kF32);
  EXPECT_THROW(narrow.forward(context, probabilities.view()), Error);
  narrow.dropout = {.rate = 0.5F, .place = 3};
  EXPECT_THROW(narrow.forward(context), Error);
}

}  // namespace
}  // namespace ventris
