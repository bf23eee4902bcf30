// SPDX-License-Identifier: Apache-2.0
#include "model/search/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "tests/support/device_buffer.h"

namespace ventris {
namespace {

using testing::Buffer;

constexpr int kTokens = 7;
constexpr int kDraws = 20000;

/// Probabilities after temperature, top-k and top-p, the plain way.
std::vector<double> expected_probabilities(const Buffer& logits, const SamplingOptions& options,
                                           const std::vector<int32_t>& banned) {
  std::vector<std::pair<double, int32_t>> tokens;
  for (int32_t w = 0; w < kTokens; ++w) {
    if (std::find(banned.begin(), banned.end(), w) != banned.end()) continue;
    tokens.emplace_back(std::exp(logits.get(w) / static_cast<double>(options.temperature)), w);
  }
  std::sort(tokens.rbegin(), tokens.rend());
  if (options.top_k > 0) tokens.resize(std::min(tokens.size(), static_cast<size_t>(options.top_k)));
  double total = 0.0;
  for (const auto& token : tokens) total += token.first;
  double together = 0.0;
  size_t kept = 0;
  while (kept < tokens.size() && together < static_cast<double>(options.top_p) * total) {
    together += tokens[kept++].first;
  }
  std::vector<double> probabilities(kTokens, 0.0);
  for (size_t i = 0; i < kept; ++i)
    probabilities[static_cast<size_t>(tokens[i].second)] = tokens[i].first / together;
  return probabilities;
}

TEST(TokenSampler, DrawsTokensAsOftenAsTheyAreProbable) {
  const std::vector<int32_t> banned = {2, 5, 2};
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF64}) {
    const Buffer logits = Buffer::random(1, kTokens + 2, dtype, 3, 1.5);
    double sum = 0.0;
    for (int w = 0; w < kTokens; ++w) sum += std::exp(logits.get(w));
    for (const SamplingOptions& options :
         {SamplingOptions{}, SamplingOptions{.temperature = 0.5F}, SamplingOptions{.top_k = 3},
          SamplingOptions{.top_k = 100}, SamplingOptions{.top_p = 0.8F},
          SamplingOptions{.temperature = 2.0F, .top_k = 4, .top_p = 0.9F},
          SamplingOptions{.top_p = 0.001F}}) {
      for (const auto& without : {std::vector<int32_t>{}, banned}) {
        TokenSampler sampler(options, kTokens);
        std::vector<double> counts(kTokens, 0.0);
        for (uint32_t i = 0; i < kDraws; ++i) {
          const DrawnToken drawn = sampler.draw(logits.view(), without, uniform_number(9, {i, 0, 0}));
          ++counts.at(static_cast<size_t>(drawn.token));
          ASSERT_NEAR(drawn.log_probability, logits.get(drawn.token) - std::log(sum), 1e-5);
        }
        const std::vector<double> expected = expected_probabilities(logits, options, without);
        double chi_square = 0.0;
        for (size_t w = 0; w < kTokens; ++w) {
          if (expected[w] == 0.0) {
            EXPECT_EQ(counts[w], 0.0) << "token " << w;
          } else {
            chi_square += std::pow(counts[w] - kDraws * expected[w], 2) / (kDraws * expected[w]);
          }
        }
        EXPECT_LT(chi_square, 27.9);  // exceeded once in 10,000 with six degrees of freedom
      }
    }
  }
}

TEST(TokenSampler, TakesTheEndsOfTheUnitInterval) {
  Buffer logits(1, kTokens, DType::kF32);  // all equal
  TokenSampler sampler({}, kTokens);
  EXPECT_EQ(sampler.draw(logits.view(), {}, 0.0).token, 0);
  EXPECT_EQ(sampler.draw(logits.view(), {}, 1.0 - 0x1p-53).token, kTokens - 1);
  const std::vector<int32_t> all = {0, 1, 2, 3, 4, 5, 6};
  EXPECT_ANY_THROW(sampler.draw(logits.view(), all, 0.5));
}

TEST(UniformNumber, IsAPureFunctionOfSeedAndKeyInTheUnitInterval) {
  std::set<double> seen;
  double sum = 0.0;
  for (uint64_t seed : {uint64_t{1}, uint64_t{1} << 40}) {
    for (uint64_t sentence : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 33}) {
      for (uint32_t stream = 0; stream < 20; ++stream) {
        for (uint32_t position = 0; position < 20; ++position) {
          const DrawKey key = {sentence, stream, position};
          const double number = uniform_number(seed, key);
          EXPECT_EQ(number, uniform_number(seed, key));
          EXPECT_TRUE(number >= 0.0 && number < 1.0);
          seen.insert(number);
          sum += number;
        }
      }
    }
  }
  EXPECT_EQ(seen.size(), 2400U);
  EXPECT_NEAR(sum / 2400.0, 0.5, 0.025);  // four standard deviations
}

}  // namespace
}  // namespace ventris
