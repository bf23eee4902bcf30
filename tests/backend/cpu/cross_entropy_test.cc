// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/finite_difference.h"

namespace ventris {
namespace {

using testing::Buffer;
using testing::kAllDTypes;

struct LossProblem {
  LossProblem(int64_t rows, int32_t tokens, int64_t vocab, int64_t padded, DType dtype,
              float smoothing = 0.1F)
      : rows(rows),
        tokens(tokens),
        vocab(vocab),
        padded(padded),
        smoothing(smoothing),
        logits(Buffer::random(rows, padded, dtype, 1, 3.0)),
        loss(1, rows, master_dtype(dtype)),
        nll(1, rows, master_dtype(dtype)) {
    std::mt19937 generator(7);
    for (int64_t t = 0; t < rows; ++t) {
      labels.push_back(t < tokens ? static_cast<int32_t>(generator() % static_cast<uint64_t>(vocab)) : -1);
    }
  }

  /// Runs on a copy of the logits and returns it: the gradient where wanted.
  Buffer run(bool gradient) {
    Context context({.scratch_bytes = 1 << 16});
    Buffer copy = logits;
    cross_entropy(context, {.logits = copy.view(),
                            .labels = labels.data(),
                            .weights = weights.empty() ? nullptr : weights.data(),
                            .tokens = &tokens,
                            .vocab = vocab,
                            .smoothing = smoothing,
                            .gradient = gradient,
                            .gradient_scale = gradient ? &scale : nullptr,
                            .loss = loss.view(),
                            .nll = nll.view()});
    return copy;
  }

  int64_t rows;
  int32_t tokens;
  int64_t vocab, padded;
  float smoothing;
  float scale = 0.25F;
  std::vector<int32_t> labels;
  std::vector<float> weights;  // empty: none
  Buffer logits, loss, nll;
};

TEST(CrossEntropy, GradientMatchesFiniteDifferences) {
  for (const bool weighted : {false, true}) {
    SCOPED_TRACE(weighted ? "with weights" : "without weights");
    LossProblem p(5, 4, 13, 16, DType::kF64);
    p.scale = 1.0F;
    if (weighted) p.weights = {0.25F, 0.0F, 3.7F, 1.0F, 5.0F};
    const Buffer gradient = p.run(true);
    const auto loss = [&] {
      p.run(false);
      double sum = 0.0;
      for (int64_t t = 0; t < p.rows; ++t) sum += p.loss.get(t);
      return sum;
    };
    testing::check_gradient("logits", loss, p.logits, gradient);
  }
}

TEST(CrossEntropy, LargeLogitsDoNotOverflow) {
  LossProblem p(1, 1, 3, 3, DType::kF32, 0.0F);
  p.logits.set(0, 10000.0);
  p.logits.set(1, 9990.0);
  p.logits.set(2, -10000.0);
  p.labels[0] = 1;
  p.run(true);
  EXPECT_NEAR(p.loss.get(0), 10.0000454, 1e-5);
}

TEST(CrossEntropy, NotANumberReachesTheLoss) {
  for (const DType dtype : kAllDTypes) {
    for (const int64_t where : {0, 100, 199}) {
      LossProblem p(1, 1, 200, 200, dtype);
      p.logits.set(where, std::numeric_limits<double>::quiet_NaN());
      p.run(true);
      EXPECT_TRUE(std::isnan(p.loss.get(0))) << "NaN at column " << where << " of " << name_of(dtype);
    }
  }
}

TEST(CrossEntropy, RefusesLabelsOutsideTheVocabulary) {
  LossProblem p(2, 2, 7, 8, DType::kF32);
  p.labels[1] = 7;
  EXPECT_THROW(p.run(true), Error);
}

}  // namespace
}  // namespace ventris
