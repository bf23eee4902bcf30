// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "backend/cross_entropy.h"
#include "backend/soft_targets.h"
#include "backend/tempered_softmax.h"
#include "trainer/checks/selftest_kernels.h"

namespace ventris {
namespace {

constexpr double kTeacherSpread = 2.0;  // of logits
constexpr float kTemperature = 2.0F;
constexpr int64_t kFirstRow = 5;
constexpr int kListed = 8;

/// softmax(row / temperature) of the first `count` numbers.
std::vector<double> softmax(const double* row, int64_t count, double temperature) {
  const double max = *std::max_element(row, row + count);
  std::vector<double> p(static_cast<size_t>(count));
  std::transform(row, row + count, p.begin(), [&](double x) { return std::exp((x - max) / temperature); });
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& probability : p) probability /= sum;
  return p;
}

void try_targets(SelftestRun& run) {
  const int64_t rows = run.score_rows, padded = run.model.padded_vocab(), vocab = run.model.vocab_size;
  const auto all_rows = static_cast<int32_t>(kFirstRow + rows);
  run.kernel("tempered_softmax", shape_text(rows, padded), run.dtype, [&](Trial& trial) {
    Context& context = trial.context();
    const Operand probabilities(context, rows, vocab, DType::kF32);
    const Numbers<int32_t> tokens(context, {all_rows});
    Matrix expected(rows, vocab);
    for (const bool first : {true, false}) {
      const Matrix logits = trial.draw(rows, padded, run.dtype, kTeacherSpread);
      const Operand device_logits(context, logits, run.dtype);
      tempered_softmax(context, {.logits = device_logits,
                                 .temperature = kTemperature,
                                 .factor = 0.5F,
                                 .accumulate = !first,
                                 .first_row = kFirstRow,
                                 .tokens = tokens.data(),
                                 .vocab = vocab,
                                 .probabilities = probabilities.view()});
      context.pool().for_each(rows, [&](int64_t t, int) {
        const std::vector<double> p = softmax(logits.row(t), vocab, static_cast<double>(kTemperature));
        for (int64_t w = 0; w < vocab; ++w) expected.at(t, w) += 0.5 * p[static_cast<size_t>(w)];
      });
    }
    trial.expect("probabilities", probabilities, expected, kCloseSingle);
  });
  run.kernel("soft_targets", shape_text(rows, padded), run.dtype, [&](Trial& trial) {
    Context& context = trial.context();
    const Matrix logits = trial.draw(rows, padded, run.dtype, kTeacherSpread);
    const Operand device_logits(context, logits, run.dtype),
        probabilities(context, rows, kListed, DType::kF32);
    const Numbers<int32_t> indices(context, std::vector<int32_t>(static_cast<size_t>(rows * kListed), -7));
    const Numbers<int32_t> tokens(context, {all_rows});
    soft_targets(context, {.scores = device_logits,
                           .are_logits = true,
                           .temperature = kTemperature,
                           .first_row = kFirstRow,
                           .tokens = tokens.data(),
                           .vocab = vocab,
                           .k = kListed,
                           .indices = indices.data(),
                           .probabilities = probabilities.view()});
    std::vector<int32_t> listed(static_cast<size_t>(rows * kListed));
    Matrix expected(rows, kListed);
    context.pool().for_each(rows, [&](int64_t t, int) {
      std::vector<int32_t> order(static_cast<size_t>(vocab));
      std::iota(order.begin(), order.end(), 0);
      const auto before = [&](int32_t a, int32_t b) {
        return logits.at(t, a) > logits.at(t, b) || (logits.at(t, a) == logits.at(t, b) && a < b);
      };
      std::partial_sort(order.begin(), order.begin() + kListed, order.end(), before);
      std::copy_n(order.begin(), kListed, listed.begin() + t * kListed);
      double largest[kListed];
      for (int i = 0; i < kListed; ++i) largest[i] = logits.at(t, order[static_cast<size_t>(i)]);
      const std::vector<double> p = softmax(largest, kListed, static_cast<double>(kTemperature));
      std::copy_n(p.begin(), kListed, expected.row(t));
    });
    trial.expect_same("indices", indices.get(), listed);
    trial.expect("probabilities", probabilities, expected, kCloseSingle);
  });
}

/// The loss with soft targets, of all tokens or of a few.
void try_learning(SelftestRun& run, bool of_all) {
  const int64_t rows = run.score_rows, padded = run.model.padded_vocab(), vocab = run.model.vocab_size;
  const int64_t tokens = rows - 2;  // the last rows do not count
  const std::string shape = shape_text(rows, padded) + (of_all ? " all targets" : " few targets");
  run.kernel("cross_entropy", shape, run.dtype, [&](Trial& trial) {
    Context& context = trial.context();
    const float scale = 0.5F, soft_weight = 0.25F;
    const auto heat = static_cast<double>(kTemperature), share = static_cast<double>(soft_weight);
    const Matrix logits = trial.draw(rows, padded, run.dtype, kTeacherSpread);
    const int64_t count = of_all ? vocab : kListed;
    Matrix targets = trial.draw(rows, count, DType::kF32);
    std::vector<int32_t> listed;
    for (int64_t t = 0; t < rows; ++t) {
      const std::vector<double> p = softmax(targets.row(t), count, 1.0);
      for (int64_t i = 0; i < count; ++i) {
        targets.at(t, i) = static_cast<double>(static_cast<float>(p[static_cast<size_t>(i)]));
        if (!of_all) listed.push_back(static_cast<int32_t>((t + i) % vocab));
      }
    }
    const std::vector<int32_t> labels = trial.draw_integers(rows, vocab);
    const Operand device_logits(context, logits, run.dtype), device_targets(context, targets, DType::kF32),
        loss(context, 1, rows, DType::kF32), nll(context, 1, rows, DType::kF32);
    const Numbers device_labels(context, labels), device_listed(context, listed);
    const Numbers<int32_t> device_tokens(context, {static_cast<int32_t>(kFirstRow + tokens)});
    const Numbers<float> device_scale(context, {scale});
    cross_entropy(context, {.logits = device_logits.view(),
                            .labels = device_labels.data(),
                            .weights = nullptr,
                            .first_row = kFirstRow,
                            .tokens = device_tokens.data(),
                            .vocab = vocab,
                            .smoothing = run.model.label_smoothing,
                            .soft = {.probabilities = device_targets,
                                     .indices = of_all ? nullptr : device_listed.data(),
                                     .weight = soft_weight,
                                     .temperature = kTemperature},
                            .gradient_scale = device_scale.data(),
                            .loss = loss.view(),
                            .nll = nll.view()});
    Matrix expected(rows, padded), expected_loss(1, rows), expected_nll(1, rows);
    const auto smoothing = static_cast<double>(run.model.label_smoothing);
    context.pool().for_each(tokens, [&](int64_t t, int) {
      const std::vector<double> p = softmax(logits.row(t), vocab, 1.0),
                                s = softmax(logits.row(t), vocab, heat);
      std::vector<double> r(static_cast<size_t>(vocab));
      for (int64_t i = 0; i < count; ++i)
        r[static_cast<size_t>(of_all ? i : listed[static_cast<size_t>(t * count + i)])] = targets.at(t, i);
      const auto label = static_cast<size_t>(labels[static_cast<size_t>(t)]);
      expected_nll.at(0, t) = -std::log(p[label]);
      for (size_t w = 0; w < p.size(); ++w) {
        const double q = smoothing / static_cast<double>(vocab) + (w == label ? 1.0 - smoothing : 0.0);
        expected_loss.at(0, t) -=
            (1.0 - share) * q * std::log(p[w]) + share * heat * heat * r[w] * std::log(s[w]);
        expected.at(t, static_cast<int64_t>(w)) =
            static_cast<double>(scale) * ((1.0 - share) * (p[w] - q) + share * heat * (s[w] - r[w]));
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

}  // namespace

void try_teachers(SelftestRun& run) {
  try_targets(run);
  for (const bool of_all : {true, false}) try_learning(run, of_all);
}

}  // namespace ventris
