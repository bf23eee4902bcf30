// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "tests/support/log_sum_exp.h"
#include "tests/support/operands.h"
#include "tests/support/operation_case.h"

namespace ventris::testing {
namespace {

constexpr int64_t kFirstRow = 3;
constexpr float kGradientScale = 0.25F;

/// Logits of the size, of which `vocab` columns and `tokens` rows count.
struct LogitsCase : Case {
  int64_t vocab = 0;
  int64_t tokens = 0;
};
std::string name_of(const LogitsCase& c) {
  return name_of(static_cast<const Case&>(c)) + "_vocab" + std::to_string(c.vocab) + "_tokens" +
         std::to_string(c.tokens);
}

std::vector<LogitsCase> cross_entropy_cases() {
  struct Shape {
    Size size;
    int64_t vocab, tokens;
  };
  const std::vector<Shape> shapes = {{{1, 1}, 1, 1},        {{5, 32}, 7, 3},        {{19, 101}, 101, 19},
                                     {{7, 128, 3}, 126, 6}, {{5, 2600}, 2579, 4},   {{4, 16}, 11, 0},
                                     {{3, 8208}, 8195, 2},  {{2, 60000}, 59997, 2}, {{2, 12288}, 12288, 2},
                                     {{2, 24576}, 24576, 2}};
  std::vector<LogitsCase> all;
  for (const Shape& shape : shapes) {
    for (const Case& c : cases(test_dtypes(), {shape.size})) all.push_back({c, shape.vocab, shape.tokens});
  }
  return all;
}

/// Random ones for the rows that count, -1 for the others.
std::vector<int32_t> labels_of(const LogitsCase& c) {
  std::mt19937 generator(7);
  std::vector<int32_t> labels;
  for (int64_t t = 0; t < c.size.rows; ++t) {
    const auto label = static_cast<int32_t>(generator() % static_cast<uint64_t>(c.vocab));
    labels.push_back(t < c.tokens ? label : -1);
  }
  return labels;
}

class CrossEntropy : public ::testing::TestWithParam<LogitsCase> {
 protected:
  struct Results {
    Buffer gradient, loss, nll;
    std::vector<double> totals;  // after 1 and 2
  };
  /// `logits` is overwritten by the gradient, if that is wanted. Without `weights` the rows have none.
  Results run(float smoothing, bool gradient, const std::vector<float>& weights = {},
              Context& context = test_context()) const {
    const auto& [rows, cols, gap] = GetParam().size;
    const DType master = master_dtype(GetParam().dtype);
    const MatrixOperand device_logits(logits_, gap), loss(1, rows, master), nll(1, rows, master);
    const ArrayOperand<int32_t> labels(labels_);
    const ArrayOperand<float> device_weights(weights.empty() ? std::vector<float>{NAN} : weights);
    const ArrayOperand<int32_t> tokens({static_cast<int32_t>(kFirstRow + GetParam().tokens)});
    const ArrayOperand<float> scale({kGradientScale});
    const ArrayOperand<double> totals({1.0, 2.0});
    cross_entropy(context, {.logits = device_logits.view(),
                            .labels = labels.data(),
                            .weights = weights.empty() ? nullptr : device_weights.data(),
                            .first_row = kFirstRow,
                            .tokens = tokens.data(),
                            .vocab = GetParam().vocab,
                            .smoothing = smoothing,
                            .gradient = gradient,
                            .gradient_scale = gradient ? scale.data() : nullptr,
                            .loss = loss.view(),
                            .nll = nll.view()});
    loss_sum(context, {.loss = loss.view(), .nll = nll.view(), .totals = totals.data()});
    return {device_logits.get(), loss.get(), nll.get(), totals.get()};
  }

  /// One for each row; 0 and 1 are among them.
  std::vector<float> unequal_weights() const {
    std::vector<float> weights;
    for (int64_t t = 0; t < GetParam().size.rows; ++t) weights.push_back(0.7F * static_cast<float>(t * t));
    weights.back() = 1.0F;
    return weights;
  }
  std::vector<float> equal_weights(float weight) const {
    return std::vector<float>(static_cast<size_t>(GetParam().size.rows), weight);
  }

  const Buffer logits_ = Buffer::random(GetParam().size.rows, GetParam().size.cols, GetParam().dtype, 1, 3.0);
  const std::vector<int32_t> labels_ = labels_of(GetParam());
};
VENTRIS_FOR_CASES(CrossEntropy, cross_entropy_cases());

TEST_P(CrossEntropy, MatchesTheReferenceAndPaddingIsExactlyZero) {
  const auto& [rows, cols, gap] = GetParam().size;
  const DType master = master_dtype(GetParam().dtype);
  const int64_t vocab = GetParam().vocab;
  for (const float smoothing : {0.0F, 0.1F}) {
    SCOPED_TRACE(smoothing);
    const std::vector<float> weights = smoothing == 0.0F ? std::vector<float>{} : unequal_weights();
    const double eps = smoothing;
    std::vector<double> loss(static_cast<size_t>(rows)), nll(static_cast<size_t>(rows));
    std::vector<double> gradient(static_cast<size_t>(rows * cols));
    for (int64_t t = 0; t < GetParam().tokens; ++t) {
      const auto at = static_cast<size_t>(t);
      const double weight = weights.empty() ? 1.0 : static_cast<double>(weights[at]);
      const double normal = log_sum_exp(logits_, t, vocab);
      for (int64_t w = 0; w < vocab; ++w) {
        const double log_p = logits_.get(t, w) - normal;
        const double q = eps / static_cast<double>(vocab) + (w == labels_[at] ? 1.0 - eps : 0.0);
        loss[at] -= weight * q * log_p;
        if (w == labels_[at]) nll[at] = -weight * log_p;
        gradient[static_cast<size_t>(t * cols + w)] = kGradientScale * weight * (std::exp(log_p) - q);
      }
    }
    for (const bool wanted : {true, false}) {
      if (!wanted && smoothing == 0.0F) continue;
      SCOPED_TRACE(wanted ? "with gradient" : "without gradient");
      const Results got = run(smoothing, wanted, weights);
      expect_close("loss", got.loss, loss, tolerance_of(master));
      expect_close("nll", got.nll, nll, tolerance_of(master));
      for (int64_t t = GetParam().tokens; t < rows; ++t) {
        EXPECT_EQ(got.loss.get(t), 0.0);
        EXPECT_EQ(got.nll.get(t), 0.0);
      }
      double totals[2] = {1.0, 2.0};
      for (int64_t t = 0; t < rows; ++t) totals[0] += got.loss.get(t), totals[1] += got.nll.get(t);
      for (const size_t i : {0, 1})
        EXPECT_TRUE(close(got.totals[i], totals[i], tolerance_of(DType::kF64)))
            << got.totals[i] << ", expected " << totals[i];
      if (wanted) {
        // A bf16 gradient is one rounding of the right number.
        const Tolerance tolerance = tolerance_of(GetParam().dtype);
        expect_close("gradient", got.gradient, gradient, {tolerance.absolute * 1e-2, tolerance.relative});
        for (int64_t i = 0; i < rows * cols; ++i) {
          const bool counts = i / cols < GetParam().tokens && i % cols < vocab;
          ASSERT_TRUE(counts || got.gradient.get(i) == 0.0) << "element " << i << " of the padding";
        }
      } else {
        expect_same_bits("logits", got.gradient, logits_);
      }
    }
  }
}

TEST_P(CrossEntropy, EqualWeightsOfAPowerOfTwoScaleTheBitsOfNone) {
  const Results none = run(0.1F, true);
  for (const float weight : {1.0F, 2.0F}) {
    SCOPED_TRACE(weight);
    const Results got = run(0.1F, true, equal_weights(weight), other_context());
    const auto expect_scaled = [&](const char* name, const Buffer& result, const Buffer& from) {
      for (int64_t i = 0; i < from.size(); ++i)
        ASSERT_EQ(result.get(i), static_cast<double>(weight) * from.get(i)) << name << " " << i;
    };
    expect_scaled("loss", got.loss, none.loss);
    expect_scaled("nll", got.nll, none.nll);
    expect_scaled("gradient", got.gradient, none.gradient);
  }
}

}  // namespace
}  // namespace ventris::testing
