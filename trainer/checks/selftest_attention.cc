// SPDX-License-Identifier: Apache-2.0
#include "backend/attention.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "trainer/checks/selftest_kernels.h"

namespace ventris {
namespace {

// Short ones, of which a block of the device takes several, long ones, which it cuts, and one of a token.
constexpr std::array<int64_t, 12> kLengths = {28, 70, 5, 40, 17, 130, 1, 31, 64, 9, 23, 2};
constexpr int64_t kMaxLength = 130;
constexpr int64_t kPadding = 3;  // rows after the last token, at least

/// Where attention is in the model.
enum class Place { kEncoder, kDecoder, kAcross };

/// Offsets of sentences that fill the rows of the longer side.
struct Sentences {
  Sentences(int64_t rows, Place place) {
    for (size_t s = 0;; ++s) {
      const int64_t left = rows - kPadding - std::max(queries.back(), keys.back());
      if (left <= 0) break;
      const size_t other = place == Place::kAcross ? s + 3 : s;
      queries.push_back(queries.back() + static_cast<int32_t>(std::min(left, kLengths[s % kLengths.size()])));
      keys.push_back(keys.back() + static_cast<int32_t>(std::min(left, kLengths[other % kLengths.size()])));
    }
  }
  int count() const { return static_cast<int>(queries.size()) - 1; }

  std::vector<int32_t> queries = {0};
  std::vector<int32_t> keys = {0};
};

/// Attention in one place of the model, by the formulas of backend/attention.h.
struct AttentionReference {
  AttentionReference(const SelftestRun& run, Trial& trial, Place place, const TrialDropout& dropout_)
      : sentences(run.layer_rows, place),
        causal(place == Place::kDecoder),
        heads(run.model.heads),
        d_head(run.model.d_head()),
        scale(1.0F / std::sqrt(static_cast<float>(d_head))),
        dropout(dropout_),
        query(trial.draw(run.layer_rows, run.model.d_model, run.dtype, 2.0)),
        key(trial.draw(run.layer_rows, run.model.d_model, run.dtype)),
        value(trial.draw(run.layer_rows, run.model.d_model, run.dtype)),
        d_out(trial.draw(run.layer_rows, run.model.d_model, run.dtype)),
        out(query.rows, query.cols),
        log_sum_exp(heads, query.rows),
        probabilities(query.rows, heads * kMaxLength),
        d_query(query.rows, query.cols),
        d_key(key.rows, key.cols),
        d_value(key.rows, key.cols) {
    // No two sentences or heads have a result in common.
    trial.context().pool().for_each(int64_t{sentences.count()} * heads, [&](int64_t index, int) {
      compute(static_cast<size_t>(index / heads), static_cast<int>(index % heads));
    });
  }

  int64_t query_tokens() const { return sentences.queries.back(); }

  /// The results of a sentence and a head, forward and backward.
  void compute(size_t sentence, int head) {
    const int64_t first_query = sentences.queries[sentence], first_key = sentences.keys[sentence];
    const int64_t begin = head * d_head;
    const auto dot = [&](const Matrix& a, int64_t r, const Matrix& b, int64_t s) {
      double sum = 0.0;
      for (int64_t c = begin; c < begin + d_head; ++c) sum += a.at(r, c) * b.at(s, c);
      return sum;
    };
    const auto add = [&](Matrix& to, int64_t r, double factor, const Matrix& from, int64_t s) {
      for (int64_t c = begin; c < begin + d_head; ++c) to.at(r, c) += factor * from.at(s, c);
    };
    const auto wide = static_cast<double>(scale);
    std::array<double, kMaxLength> d_p{};
    for (int64_t t = first_query; t < sentences.queries[sentence + 1]; ++t) {
      const int64_t keys = causal ? t - first_query + 1 : sentences.keys[sentence + 1] - first_key;
      double* p = probabilities.row(t) + head * kMaxLength;
      double sum = 0.0, d_sum = 0.0;
      for (int64_t j = 0; j < keys; ++j) sum += p[j] = std::exp(wide * dot(query, t, key, first_key + j));
      log_sum_exp.at(head, t) = std::log(sum);
      for (int64_t j = 0; j < keys; ++j) {
        const double mask = dropout.factor(t, j, head);
        double& d_pj = d_p[static_cast<size_t>(j)];
        p[j] /= sum;
        d_pj = mask * dot(d_out, t, value, first_key + j);
        d_sum += p[j] * d_pj;
        add(out, t, mask * p[j], value, first_key + j);
        add(d_value, first_key + j, mask * p[j], d_out, t);
      }
      for (int64_t j = 0; j < keys; ++j) {
        const double d_score = wide * p[j] * (d_p[static_cast<size_t>(j)] - d_sum);
        add(d_query, t, d_score, key, first_key + j);
        add(d_key, first_key + j, d_score, query, t);
      }
    }
  }

  const Sentences sentences;
  const bool causal;
  const int heads;
  const int64_t d_head;
  const float scale;
  const TrialDropout& dropout;
  const Matrix query, key, value, d_out;
  Matrix out, log_sum_exp;
  Matrix probabilities;  // [rows, heads * kMaxLength], before dropout
  Matrix d_query, d_key, d_value;
};

/// The inputs of forward and backward on the device, with lists of work as a step makes them.
struct AttentionInputs {
  AttentionInputs(const SelftestRun& run, Context& context, const AttentionReference& reference)
      : query(context, reference.query, run.dtype),
        key(context, reference.key, run.dtype),
        value(context, reference.value, run.dtype),
        query_offsets(context, reference.sentences.queries),
        key_offsets(context, reference.sentences.keys),
        memory(run.device(), plan(run, reference, {}).second, "operands of the self-test"),
        work(plan(run, reference, &memory).first) {
    list_attention_work(context, {.query_offsets = query_offsets.data(),
                                  .key_offsets = key_offsets.data(),
                                  .sentences = reference.sentences.count(),
                                  .work = work});
  }

  Operand query, key, value;
  Numbers<int32_t> query_offsets, key_offsets;
  Arena memory;
  AttentionWork work;

 private:
  /// The lists in an arena, or without one in none, and the bytes that they need.
  static std::pair<AttentionWork, size_t> plan(const SelftestRun& run, const AttentionReference& reference,
                                               Arena* arena) {
    Arena measuring;
    Arena& from = arena == nullptr ? measuring : *arena;
    const AttentionWork work = plan_attention_work(from, run.device(), run.dtype, reference.sentences.count(),
                                                   reference.query.rows, reference.key.rows);
    return {work, from.used()};
  }
};

std::string attention_text(const SelftestRun& run, Place place) {
  const char* where = place == Place::kEncoder ? "" : place == Place::kDecoder ? " causal" : " across";
  return shape_text(run.layer_rows, run.model.d_model) + where;
}

void try_place(SelftestRun& run, Place place) {
  const int64_t rows = run.layer_rows, d = run.model.d_model, heads = run.model.heads;
  run.kernel("attention_forward", attention_text(run, place), run.dtype, [&](Trial& trial) {
    Context& context = trial.context();
    const TrialDropout dropout(context, run.model.attention_dropout);
    const AttentionReference reference(run, trial, place, dropout);
    const AttentionInputs inputs(run, context, reference);
    const Operand out(context, rows, d, run.dtype), log_sum_exp(context, heads, rows, DType::kF32);
    const bool maps = place == Place::kAcross;  // pictures of alignments need them
    const Operand probabilities(context, rows, heads * kMaxLength, DType::kF32);
    attention_forward(context, {.query = inputs.query.view(),
                                .key = inputs.key.view(),
                                .value = inputs.value.view(),
                                .query_offsets = inputs.query_offsets.data(),
                                .key_offsets = inputs.key_offsets.data(),
                                .sentences = reference.sentences.count(),
                                .heads = reference.heads,
                                .causal = reference.causal,
                                .scale = reference.scale,
                                .dropout = dropout.key,
                                .work = inputs.work,
                                .out = out.view(),
                                .log_sum_exp = log_sum_exp.view(),
                                .probabilities = maps ? probabilities.view() : Tensor{}});
    const int64_t tokens = reference.query_tokens();
    trial.expect("out", out.view().row_range(0, tokens), reference.out, run.close);
    trial.expect("log_sum_exp", log_sum_exp.view().col_range(0, tokens), reference.log_sum_exp, run.close);
    if (maps) {
      trial.expect("probabilities", probabilities.view().row_range(0, tokens), reference.probabilities,
                   run.close);
    }
  });
  run.kernel("attention_backward", attention_text(run, place), run.dtype, [&](Trial& trial) {
    Context& context = trial.context();
    const TrialDropout dropout(context, run.model.attention_dropout);
    const AttentionReference reference(run, trial, place, dropout);
    const AttentionInputs inputs(run, context, reference);
    const Operand out(context, reference.out, run.dtype),
        log_sum_exp(context, reference.log_sum_exp, DType::kF32), d_out(context, reference.d_out, run.dtype);
    const Operand d_query(context, rows, d, run.dtype), d_key(context, rows, d, run.dtype),
        d_value(context, rows, d, run.dtype);
    attention_backward(context, {.query = inputs.query.view(),
                                 .key = inputs.key.view(),
                                 .value = inputs.value.view(),
                                 .out = out.view(),
                                 .log_sum_exp = log_sum_exp.view(),
                                 .d_out = d_out.view(),
                                 .query_offsets = inputs.query_offsets.data(),
                                 .key_offsets = inputs.key_offsets.data(),
                                 .sentences = reference.sentences.count(),
                                 .heads = reference.heads,
                                 .causal = reference.causal,
                                 .scale = reference.scale,
                                 .dropout = dropout.key,
                                 .work = inputs.work,
                                 .d_query = d_query.view(),
                                 .d_key = d_key.view(),
                                 .d_value = d_value.view()});
    // Gradients of scores are differences of numbers that are sqrt(d_head) times as large; tensor cores get
    // them, and P, rounded to bf16.
    constexpr double kOfRounding = 3.0;
    Tolerance close = run.close;
    close.absolute *=
        run.dtype == DType::kBF16 ? kOfRounding : std::sqrt(static_cast<double>(reference.d_head));
    trial.expect("d_query", d_query, reference.d_query, close);
    trial.expect("d_key", d_key, reference.d_key, close);
    trial.expect("d_value", d_value, reference.d_value, run.close);
  });
}

/// Hypotheses that share rows of a cache, one of them without keys.
void try_decode(SelftestRun& run) {
  const int64_t d = run.model.d_model, d_head = run.model.d_head();
  const int heads = run.model.heads;
  const int64_t cache_rows = run.layer_rows, hypotheses = std::ssize(kLengths);
  run.kernel("attention_decode", shape_text(hypotheses, d), run.dtype, [&](Trial& trial) {
    Context& context = trial.context();
    const Matrix query = trial.draw(hypotheses, d, run.dtype, 2.0);
    const Matrix key = trial.draw(cache_rows, d, run.dtype), value = trial.draw(cache_rows, d, run.dtype);
    std::vector<int32_t> begin = {0, 0};
    for (size_t r = 1; r < kLengths.size(); ++r)
      begin.push_back(begin.back() + static_cast<int32_t>(kLengths[r]));
    const std::vector<int32_t> key_rows = trial.draw_integers(begin.back(), cache_rows);
    const float scale = 1.0F / std::sqrt(static_cast<float>(d_head));
    const Operand device_query(context, query, run.dtype), device_key(context, key, run.dtype),
        device_value(context, value, run.dtype);
    const Operand out(context, hypotheses, d, run.dtype),
        probabilities(context, hypotheses, kMaxLength, DType::kF32);
    const Numbers device_key_rows(context, key_rows), device_begin(context, begin);
    attention_decode(context, {.query = device_query.view(),
                               .key = device_key.view(),
                               .value = device_value.view(),
                               .key_rows = device_key_rows.data(),
                               .key_begin = device_begin.data(),
                               .heads = heads,
                               .scale = scale,
                               .out = out.view(),
                               .probabilities = probabilities.view()});
    Matrix expected(hypotheses, d), mean(hypotheses, kMaxLength);
    for (int64_t r = 0; r < hypotheses; ++r) {
      const int32_t first = begin[static_cast<size_t>(r)];
      const int64_t keys = begin[static_cast<size_t>(r) + 1] - first;
      const auto key_row = [&](int64_t j) { return key_rows[static_cast<size_t>(first + j)]; };
      for (int64_t head = 0; head < heads; ++head) {
        std::array<double, kMaxLength> p{};
        double sum = 0.0;
        for (int64_t j = 0; j < keys; ++j) {
          double score = 0.0;
          for (int64_t c = head * d_head; c < (head + 1) * d_head; ++c)
            score += query.at(r, c) * key.at(key_row(j), c);
          sum += p[static_cast<size_t>(j)] = std::exp(static_cast<double>(scale) * score);
        }
        for (int64_t j = 0; j < keys; ++j) {
          const double probability = p[static_cast<size_t>(j)] / sum;
          mean.at(r, j) += probability / heads;
          for (int64_t c = head * d_head; c < (head + 1) * d_head; ++c)
            expected.at(r, c) += probability * value.at(key_row(j), c);
        }
      }
    }
    trial.expect("out", out, expected, run.close);
    trial.expect("probabilities", probabilities, mean, run.close);
  });
}

}  // namespace

void try_attention(SelftestRun& run) {
  for (const Place place : {Place::kEncoder, Place::kDecoder, Place::kAcross}) try_place(run, place);
  try_decode(run);
}

}  // namespace ventris
