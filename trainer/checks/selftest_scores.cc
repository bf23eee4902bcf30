// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "backend/cross_entropy.h"
#include "backend/log_probability_sum.h"
#include "backend/repetition_penalty.h"
#include "backend/top_k.h"
#include "trainer/checks/selftest_kernels.h"

namespace ventris {
namespace {

constexpr double kSpread = 2.0;  // of logits

/// Of the first `count` numbers of a row.
double log_sum_exp(const double* row, int64_t count) {
  const double max = *std::max_element(row, row + count);
  const double sum = std::accumulate(row, row + count, 0.0,
                                     [&](double part, double logit) { return part + std::exp(logit - max); });
  return max + std::log(sum);
}

void try_cross_entropy(SelftestRun& run, bool weighted) {
  constexpr int64_t kFirstRow = 5;
  const int64_t rows = run.score_rows, padded = run.model.padded_vocab(), vocab = run.model.vocab_size;
  const int64_t tokens = rows - 2;  // the last rows do not count
  const std::string shape = shape_text(rows, padded) + (weighted ? " weighted" : "");
  run.kernel("cross_entropy", shape, run.dtype, [&](Trial& trial) {
    Context& context = trial.context();
    const float scale = 0.5F;
    const Matrix logits = trial.draw(rows, padded, run.dtype, kSpread);
    const std::vector<int32_t> labels = trial.draw_integers(rows, vocab);
    const Operand device_logits(context, logits, run.dtype), loss(context, 1, rows, DType::kF32),
        nll(context, 1, rows, DType::kF32);
    const Numbers device_labels(context, labels);
    const Numbers<int32_t> device_tokens(context, {static_cast<int32_t>(kFirstRow + tokens)});
    const Numbers<float> device_scale(context, {scale});
    std::vector<float> weights;  // 0 to 1.75
    for (const int32_t quarters : trial.draw_integers(rows, 8))
      weights.push_back(weighted ? 0.25F * static_cast<float>(quarters) : 1.0F);
    const Numbers<float> device_weights(context, weights);
    cross_entropy(context, {.logits = device_logits.view(),
                            .labels = device_labels.data(),
                            .weights = weighted ? device_weights.data() : nullptr,
                            .first_row = kFirstRow,
                            .tokens = device_tokens.data(),
                            .vocab = vocab,
                            .smoothing = run.model.label_smoothing,
                            .gradient_scale = device_scale.data(),
                            .loss = loss.view(),
                            .nll = nll.view()});
    Matrix expected(rows, padded), expected_loss(1, rows), expected_nll(1, rows);
    const auto smoothing = static_cast<double>(run.model.label_smoothing);
    context.pool().for_each(tokens, [&](int64_t t, int) {
      const double normal = log_sum_exp(logits.row(t), vocab);
      const int32_t label = labels[static_cast<size_t>(t)];
      const auto weight = static_cast<double>(weights[static_cast<size_t>(t)]);
      expected_nll.at(0, t) = weight * (normal - logits.at(t, label));
      for (int64_t w = 0; w < vocab; ++w) {
        const double log_p = logits.at(t, w) - normal;
        const double q = smoothing / static_cast<double>(vocab) + (w == label ? 1.0 - smoothing : 0.0);
        expected_loss.at(0, t) -= weight * q * log_p;
        expected.at(t, w) = static_cast<double>(scale) * weight * (std::exp(log_p) - q);
      }
    });
    // Most of the gradient is about 1 / vocab, and what does not count is exactly zero.
    trial.expect("d_logits", device_logits.view().row_range(0, tokens).col_range(0, vocab), expected,
                 run.close, 1.0 / static_cast<double>(vocab));
    trial.expect("d_logits", device_logits.view().col_range(vocab, padded - vocab), Matrix(1, padded),
                 {0.0, 0.0});
    trial.expect("d_logits of padding", device_logits.view().row_range(tokens, rows - tokens),
                 Matrix(1, padded), {0.0, 0.0});
    trial.expect("loss", loss, expected_loss, kCloseSingle);
    trial.expect("nll", nll, expected_nll, kCloseSingle);
  });
}

/// The logits of a search: what may follow of each of a few hypotheses.
void try_search(SelftestRun& run) {
  constexpr int64_t kHypotheses = 24;
  constexpr int kTokens = 5;
  const int64_t padded = run.model.padded_vocab(), vocab = run.model.vocab_size;
  const std::string shape = shape_text(kHypotheses, padded);
  run.kernel("log_softmax_top_k", shape, run.dtype, [&](Trial& trial) {
    Context& context = trial.context();
    const Matrix logits = trial.draw(kHypotheses, padded, run.dtype, kSpread);
    const auto before = [&](int64_t r, int32_t a, int32_t b) {
      return logits.at(r, a) > logits.at(r, b) || (logits.at(r, a) == logits.at(r, b) && a < b);
    };
    // Row 0 may not have its most probable token, no row that of row 1.
    std::vector<std::vector<int32_t>> order;
    for (int64_t r = 0; r < kHypotheses; ++r) {
      order.emplace_back(static_cast<size_t>(vocab));
      std::iota(order.back().begin(), order.back().end(), 0);
      std::partial_sort(order.back().begin(), order.back().begin() + kTokens + 2, order.back().end(),
                        [&](int32_t a, int32_t b) { return before(r, a, b); });
    }
    const int32_t everywhere = order[1][0], of_first = order[0][0];
    std::vector<int32_t> begin(kHypotheses + 1, 1);
    begin[0] = 0;
    const Operand device_logits(context, logits, run.dtype);
    const Numbers<int32_t> banned(context, {everywhere, -1}), row_banned(context, {of_first}),
        row_begin(context, begin);
    const Numbers<float> values(context, std::vector<float>(kHypotheses * kTokens, NAN));
    const Numbers<int32_t> indices(context, std::vector<int32_t>(kHypotheses * kTokens, -7));
    log_softmax_top_k(context, {.logits = device_logits.view(),
                                .vocab = vocab,
                                .k = kTokens,
                                .banned = banned.data(),
                                .row_banned = row_banned.data(),
                                .row_banned_begin = row_begin.data(),
                                .values = values.data(),
                                .indices = indices.data()});
    const std::vector<float> got_values = values.get();
    std::vector<int32_t> expected;
    for (int64_t r = 0; r < kHypotheses; ++r) {
      const double normal = log_sum_exp(logits.row(r), vocab);
      const size_t end = static_cast<size_t>(r + 1) * kTokens;
      for (const int32_t token : order[static_cast<size_t>(r)]) {
        if (expected.size() == end) break;
        if (token == everywhere || (r == 0 && token == of_first)) continue;
        trial.expect("values", static_cast<double>(got_values[expected.size()]), logits.at(r, token) - normal,
                     kCloseSingle);
        expected.push_back(token);
      }
    }
    trial.expect_same("indices", indices.get(), expected);
  });
  run.kernel("log_probability", shape, run.dtype, [&](Trial& trial) {
    Context& context = trial.context();
    const Matrix logits = trial.draw(kHypotheses, padded, run.dtype, kSpread);
    const std::vector<int32_t> labels = trial.draw_integers(kHypotheses, vocab);
    const Operand device_logits(context, logits, run.dtype), out(context, 1, kHypotheses, DType::kF32);
    const Numbers device_labels(context, labels);
    log_probability(context, {.logits = device_logits.view(),
                              .labels = device_labels.data(),
                              .vocab = vocab,
                              .log_probabilities = out.view().as<float>()});
    Matrix expected(1, kHypotheses);
    for (int64_t r = 0; r < kHypotheses; ++r)
      expected.at(0, r) = logits.at(r, labels[static_cast<size_t>(r)]) - log_sum_exp(logits.row(r), vocab);
    trial.expect("log_probabilities", out, expected, kCloseSingle);
  });
  run.kernel("log_probability_sum", shape, run.dtype, [&](Trial& trial) {
    Context& context = trial.context();
    const Matrix first = trial.draw(kHypotheses, padded, run.dtype, kSpread),
                 second = trial.draw(kHypotheses, padded, run.dtype, kSpread);
    const Operand device_first(context, first, run.dtype), device_second(context, second, run.dtype),
        sum(context, kHypotheses, vocab, DType::kF32);
    log_probability_sum(context,
                        {.logits = device_first.view(), .vocab = vocab, .first = true, .sum = sum.view()});
    log_probability_sum(context,
                        {.logits = device_second.view(), .vocab = vocab, .first = false, .sum = sum.view()});
    Matrix expected(kHypotheses, vocab);
    for (int64_t r = 0; r < kHypotheses; ++r) {
      const double normals[] = {log_sum_exp(first.row(r), vocab), log_sum_exp(second.row(r), vocab)};
      for (int64_t w = 0; w < vocab; ++w)
        expected.at(r, w) =
            std::log(std::exp(first.at(r, w) - normals[0]) + std::exp(second.at(r, w) - normals[1]));
    }
    trial.expect("sum", sum, expected, kCloseSingle);
  });
  run.kernel("repetition_penalty", shape, run.dtype, [&](Trial& trial) {
    Context& context = trial.context();
    constexpr float kPenalty = 1.5F;
    Matrix logits = trial.draw(kHypotheses, padded, run.dtype, kSpread);
    const Operand device_logits(context, logits, run.dtype);
    std::vector<int32_t> tokens, begin = {0};
    for (int64_t r = 0; r < kHypotheses; ++r) {
      for (int64_t token = r; token < vocab; token += vocab / (r + 1)) {
        tokens.push_back(static_cast<int32_t>(token));
        double& logit = logits.at(r, token);
        logit = logit > 0.0 ? logit / static_cast<double>(kPenalty) : logit * static_cast<double>(kPenalty);
      }
      begin.push_back(static_cast<int32_t>(tokens.size()));
    }
    const Numbers device_tokens(context, tokens), device_begin(context, begin);
    repetition_penalty(context, {.logits = device_logits.view(),
                                 .tokens = device_tokens.data(),
                                 .begin = device_begin.data(),
                                 .penalty = kPenalty});
    trial.expect("logits", device_logits, logits, run.close);
  });
}

}  // namespace

void try_scores(SelftestRun& run) {
  for (const bool weighted : {false, true}) try_cross_entropy(run, weighted);
  try_search(run);
}

}  // namespace ventris
