// SPDX-License-Identifier: Apache-2.0
#include "backend/r_drop.h"

#include <cmath>
#include <vector>

#include "tests/support/log_sum_exp.h"
#include "tests/support/logits_case.h"
#include "tests/support/operands.h"
#include "tests/support/operation_case.h"

namespace ventris::testing {
namespace {

constexpr int64_t kFirstPairRow = 3;
constexpr float kPairGradientScale = 0.25F;

std::vector<LogitsCase> r_drop_cases() {
  return logits_cases({{{1, 1}, 1, 1},
                       {{5, 32}, 7, 3},
                       {{19, 101}, 101, 19},
                       {{7, 128, 3}, 126, 6},
                       {{5, 2600}, 2579, 4},
                       {{4, 16}, 11, 0},
                       {{2, 12288}, 12288, 2}});
}

struct Setting {
  float smoothing;
  float alpha;
  std::vector<float> weights;  // empty: none
};

class RDrop : public ::testing::TestWithParam<LogitsCase> {
 protected:
  struct Results {
    Buffer first, second, loss, nll;
  };
  Results run(const Buffer& first, const Buffer& second, const Setting& setting) const {
    const auto& [rows, cols, gap] = GetParam().size;
    const DType master = master_dtype(GetParam().dtype);
    const MatrixOperand x(first, gap), y(second, gap), loss(1, rows, master), nll(1, rows, master);
    const ArrayOperand<int32_t> labels(labels_);
    const ArrayOperand<float> weights(setting.weights.empty() ? std::vector<float>{NAN} : setting.weights);
    const ArrayOperand<int32_t> tokens({static_cast<int32_t>(kFirstPairRow + GetParam().tokens)});
    const ArrayOperand<float> scale({kPairGradientScale});
    r_drop(test_context(), {.pass = {.logits = x.view(),
                                     .labels = labels.data(),
                                     .weights = setting.weights.empty() ? nullptr : weights.data(),
                                     .first_row = kFirstPairRow,
                                     .tokens = tokens.data(),
                                     .vocab = GetParam().vocab,
                                     .smoothing = setting.smoothing,
                                     .soft = {},
                                     .gradient = true,
                                     .gradient_scale = scale.data(),
                                     .loss = loss.view(),
                                     .nll = nll.view()},
                            .second = y.view(),
                            .alpha = setting.alpha});
    return {x.get(), y.get(), loss.get(), nll.get()};
  }

  /// -sum_w q(w) log p(w) of a row, with q the smoothed label.
  double smoothed_loss(const Buffer& logits, int64_t row, float smoothing) const {
    const int64_t vocab = GetParam().vocab;
    const double normal = log_sum_exp(logits, row, vocab);
    double loss = 0.0;
    for (int64_t w = 0; w < vocab; ++w) loss -= q(row, w, smoothing) * (logits.get(row, w) - normal);
    return loss;
  }
  double q(int64_t row, int64_t token, float smoothing) const {
    const double eps = smoothing;
    return eps / static_cast<double>(GetParam().vocab) +
           (token == labels_[static_cast<size_t>(row)] ? 1.0 - eps : 0.0);
  }
  /// KL(a || b) of a row.
  double divergence(const Buffer& a, const Buffer& b, int64_t row) const {
    const int64_t vocab = GetParam().vocab;
    const double a_normal = log_sum_exp(a, row, vocab);
    const double b_normal = log_sum_exp(b, row, vocab);
    double sum = 0.0;
    for (int64_t w = 0; w < vocab; ++w) {
      const double log_a = a.get(row, w) - a_normal;
      sum += std::exp(log_a) * (log_a - (b.get(row, w) - b_normal));
    }
    return sum;
  }
  /// Of the loss of a row by the logits of `a`, with `b` those of the other pass.
  std::vector<double> derivatives(const Buffer& a, const Buffer& b, int64_t row,
                                  const Setting& setting) const {
    const double a_normal = log_sum_exp(a, row, GetParam().vocab);
    const double b_normal = log_sum_exp(b, row, GetParam().vocab);
    const double kl = divergence(a, b, row);
    std::vector<double> all;
    for (int64_t w = 0; w < GetParam().vocab; ++w) {
      const double log_p = a.get(row, w) - a_normal;
      const double log_r = b.get(row, w) - b_normal;
      const double p = std::exp(log_p);
      all.push_back(0.5 * (p - q(row, w, setting.smoothing)) +
                    0.25 * setting.alpha * (p * (log_p - log_r - kl) + p - std::exp(log_r)));
    }
    return all;
  }

  const Buffer first_ = Buffer::random(GetParam().size.rows, GetParam().size.cols, GetParam().dtype, 1, 3.0);
  const Buffer second_ = Buffer::random(GetParam().size.rows, GetParam().size.cols, GetParam().dtype, 2, 3.0);
  const std::vector<int32_t> labels_ = labels_of(GetParam());
};
VENTRIS_FOR_CASES(RDrop, r_drop_cases());

TEST_P(RDrop, MatchesTheReferenceAndPaddingIsExactlyZero) {
  const auto& [rows, cols, gap] = GetParam().size;
  const DType master = master_dtype(GetParam().dtype);
  const int64_t vocab = GetParam().vocab;
  std::vector<float> unequal;
  for (int64_t t = 0; t < rows; ++t) unequal.push_back(0.7F * static_cast<float>(t * t));
  for (const Setting& setting : {Setting{0.0F, 5.0F, {}}, Setting{0.1F, 0.7F, unequal}}) {
    SCOPED_TRACE(setting.alpha);
    std::vector<double> loss(static_cast<size_t>(rows)), nll(static_cast<size_t>(rows));
    std::vector<double> x(static_cast<size_t>(rows * cols)), y(x.size());
    for (int64_t t = 0; t < GetParam().tokens; ++t) {
      const auto at = static_cast<size_t>(t);
      const double weight = setting.weights.empty() ? 1.0 : static_cast<double>(setting.weights[at]);
      nll[at] = weight * 0.5 * (smoothed_loss(first_, t, 0.0F) + smoothed_loss(second_, t, 0.0F));
      loss[at] = weight * (0.5 * (smoothed_loss(first_, t, setting.smoothing) +
                                  smoothed_loss(second_, t, setting.smoothing)) +
                           0.25 * static_cast<double>(setting.alpha) *
                               (divergence(first_, second_, t) + divergence(second_, first_, t)));
      const std::vector<double> d_first = derivatives(first_, second_, t, setting);
      const std::vector<double> d_second = derivatives(second_, first_, t, setting);
      for (int64_t w = 0; w < vocab; ++w) {
        const auto place = static_cast<size_t>(t * cols + w);
        x[place] = kPairGradientScale * weight * d_first[static_cast<size_t>(w)];
        y[place] = kPairGradientScale * weight * d_second[static_cast<size_t>(w)];
      }
    }
    const Results got = run(first_, second_, setting);
    expect_close("loss", got.loss, loss, tolerance_of(master));
    expect_close("nll", got.nll, nll, tolerance_of(master));
    const Tolerance tolerance = tolerance_of(GetParam().dtype);
    expect_close("gradient of the first", got.first, x, {tolerance.absolute * 1e-1, tolerance.relative});
    expect_close("gradient of the second", got.second, y, {tolerance.absolute * 1e-1, tolerance.relative});
    for (int64_t i = 0; i < rows * cols; ++i) {
      const bool counts = i / cols < GetParam().tokens && i % cols < vocab;
      ASSERT_TRUE(counts || (got.first.get(i) == 0.0 && got.second.get(i) == 0.0)) << "padding " << i;
    }
  }
}

TEST_P(RDrop, TheGradientIsThatOfTheLossByFiniteDifferences) {
  if (GetParam().dtype != DType::kF64 || GetParam().size.cols > 200) return;
  const int64_t cols = GetParam().size.cols;
  const Setting setting{0.1F, 3.0F, {}};
  const Results got = run(first_, second_, setting);
  constexpr double kStep = 1e-6;
  for (int64_t t = 0; t < GetParam().tokens; ++t) {
    for (int64_t w = 0; w < GetParam().vocab; w += 1 + GetParam().vocab / 5) {
      const auto loss_at = [&](bool of_first, double change) {
        Buffer moved = of_first ? first_ : second_;
        moved.set(t * cols + w, moved.get(t, w) + change);
        return run(of_first ? moved : first_, of_first ? second_ : moved, setting).loss.get(t);
      };
      for (const bool of_first : {true, false}) {
        const double slope = (loss_at(of_first, kStep) - loss_at(of_first, -kStep)) / (2.0 * kStep);
        const double gradient = (of_first ? got.first : got.second).get(t, w);
        EXPECT_NEAR(gradient, kPairGradientScale * slope, 1e-7) << t << " " << w << " " << of_first;
      }
    }
  }
}

TEST_P(RDrop, EqualPassesHaveTheLossOfOneAndHalfItsGradientEach) {
  const auto& [rows, cols, gap] = GetParam().size;
  const DType master = master_dtype(GetParam().dtype);
  const Results got = run(first_, first_, {0.1F, 5.0F, {}});
  expect_same_bits("gradients", got.first, got.second);
  const MatrixOperand logits(first_, gap), loss(1, rows, master), nll(1, rows, master);
  const ArrayOperand<int32_t> labels(labels_);
  const ArrayOperand<int32_t> tokens({static_cast<int32_t>(kFirstPairRow + GetParam().tokens)});
  const ArrayOperand<float> scale({0.5F * kPairGradientScale});
  cross_entropy(test_context(), {.logits = logits.view(),
                                 .labels = labels.data(),
                                 .weights = nullptr,
                                 .first_row = kFirstPairRow,
                                 .tokens = tokens.data(),
                                 .vocab = GetParam().vocab,
                                 .smoothing = 0.1F,
                                 .soft = {},
                                 .gradient = true,
                                 .gradient_scale = scale.data(),
                                 .loss = loss.view(),
                                 .nll = nll.view()});
  expect_close("loss", got.loss, to_doubles(loss.get()), tolerance_of(master));
  expect_close("nll", got.nll, to_doubles(nll.get()), tolerance_of(master));
  expect_close("gradient", got.first, to_doubles(logits.get()), tolerance_of(GetParam().dtype));
}

}  // namespace
}  // namespace ventris::testing
