// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/top_k.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "backend/ops/repetition_penalty.h"
#include "tests/support/compare.h"

namespace ventris {
namespace {

using testing::Buffer;

struct Result {
  std::vector<float> values;
  std::vector<int32_t> indices;
};

Result top_k(const Buffer& logits, int64_t vocab, int k, const int32_t* banned = nullptr) {
  Context context({.scratch_bytes = 1 << 16});
  const auto size = static_cast<size_t>(logits.view().rows * k);
  Result result = {std::vector<float>(size), std::vector<int32_t>(size)};
  log_softmax_top_k(context, {.logits = logits.view(),
                              .vocab = vocab,
                              .k = k,
                              .banned = banned,
                              .values = result.values.data(),
                              .indices = result.indices.data()});
  return result;
}

TEST(LogSoftmaxTopK, TokensOfProbabilityZeroComeLast) {
  Buffer logits(1, 100, DType::kF32);
  for (int64_t w = 0; w < 100; ++w) logits.set(w, -std::numeric_limits<double>::infinity());
  logits.set(70, 1.0);
  const Result got = top_k(logits, 100, 3);
  EXPECT_EQ(got.indices, (std::vector<int32_t>{70, 0, 1}));
  EXPECT_EQ(got.values[0], 0.0F);
  EXPECT_EQ(got.values[1], -std::numeric_limits<float>::infinity());
}

TEST(LogSoftmaxTopK, RefusesMoreTokensThanThereAre) {
  const Buffer logits = Buffer::random(1, 4, DType::kF32, 13);
  const int32_t banned[] = {1, -1};
  EXPECT_THROW(top_k(logits, 4, 5), Error);
  EXPECT_THROW(top_k(logits, 4, 4, banned), Error);
}

TEST(RepetitionPenalty, RefusesTokensOutsideOfTheRow) {
  Context context({});
  Buffer logits(1, 4, DType::kF32);
  const std::vector<int32_t> tokens = {4};
  const std::vector<int32_t> begin = {0, 1};
  EXPECT_THROW(
      repetition_penalty(
          context,
          {.logits = logits.view(), .tokens = tokens.data(), .begin = begin.data(), .penalty = 2.0F}),
      Error);
}

}  // namespace
}  // namespace ventris
