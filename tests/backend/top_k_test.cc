// SPDX-License-Identifier: Apache-2.0
#include "backend/top_k.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/support/compare.h"

namespace ventris {
namespace {

using testing::Buffer;
using testing::kAllDTypes;

struct Result {
  std::vector<float> values;
  std::vector<int32_t> indices;
};

Result top_k(const Buffer& logits, int64_t vocab, int k, const int32_t* banned = nullptr, int threads = 1) {
  Context context({.threads = threads, .scratch_bytes = 1 << 16});
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

TEST(LogSoftmaxTopK, NeverReturnsTokensThatAreBannedOfARow) {
  for (const DType dtype : kAllDTypes) {
    const Buffer logits = Buffer::random(3, 70, dtype, 13);
    const std::vector<int32_t> everywhere = {7, -1};
    // Row 0 may have all but 7, row 1 but two tokens, row 2 has two tokens left.
    std::vector<int32_t> tokens = {0, 69};
    for (int32_t w = 0; w < 70; ++w) {
      if (w != 7 && w != 20 && w != 30) tokens.push_back(w);
    }
    const std::vector<int32_t> begin = {0, 0, 2, static_cast<int32_t>(tokens.size())};
    Context context({});
    std::vector<float> values(12);
    std::vector<int32_t> indices(12);
    log_softmax_top_k(context, {.logits = logits.view(),
                                .vocab = 70,
                                .k = 4,
                                .banned = everywhere.data(),
                                .row_banned = tokens.data(),
                                .row_banned_begin = begin.data(),
                                .values = values.data(),
                                .indices = indices.data()});
    for (int64_t r = 0; r < 3; ++r) {
      std::vector<int32_t> banned(tokens.begin() + begin[static_cast<size_t>(r)],
                                  tokens.begin() + begin[static_cast<size_t>(r) + 1]);
      banned.insert(banned.end(), {7, -1});
      const int left = r == 2 ? 2 : 4;
      const Result alone = top_k(logits, 70, left, banned.data());
      for (int i = 0; i < 4; ++i) {
        const auto at = static_cast<size_t>(r * 4 + i);
        if (i < left) {
          EXPECT_EQ(indices[at], alone.indices[static_cast<size_t>(r * left + i)]);
          EXPECT_EQ(values[at], alone.values[static_cast<size_t>(r * left + i)]);
        } else {
          EXPECT_EQ(indices[at], -1);
          EXPECT_EQ(values[at], -std::numeric_limits<float>::infinity());
        }
      }
    }
  }
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

TEST(LogSoftmaxTopK, BitsDoNotDependOnTheNumberOfThreads) {
  const Buffer logits = Buffer::random(23, 301, DType::kF32, 13);
  const Result one = top_k(logits, 301, 4);
  for (const int threads : {2, 3}) {
    const Result many = top_k(logits, 301, 4, nullptr, threads);
    EXPECT_EQ(one.values, many.values);
    EXPECT_EQ(one.indices, many.indices);
  }
}

TEST(LogSoftmaxTopK, RefusesMoreTokensThanThereAre) {
  const Buffer logits = Buffer::random(1, 4, DType::kF32, 13);
  const int32_t banned[] = {1, -1};
  EXPECT_THROW(top_k(logits, 4, 5), Error);
  EXPECT_THROW(top_k(logits, 4, 4, banned), Error);
}

}  // namespace
}  // namespace ventris
