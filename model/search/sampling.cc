// SPDX-License-Identifier: Apache-2.0
#include "model/search/sampling.h"

#include <algorithm>
#include <cmath>

#include "backend/cpu/simd.h"
#include "backend/device/error.h"
#include "backend/device/philox.h"

namespace ventris {
namespace {

using Candidate = std::pair<double, int32_t>;

/// Orders by descending probability, then by ascending token.
bool before(const Candidate& x, const Candidate& y) {
  return x.first > y.first || (x.first == y.first && x.second < y.second);
}
bool after(const Candidate& x, const Candidate& y) {
  return before(y, x);
}

}  // namespace

double uniform_number(uint64_t seed, const DrawKey& key) {
  const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
  const auto high = [](uint64_t x) { return static_cast<uint32_t>(x >> 32); };
  const auto bits = philox4x32_10({key.position, key.stream, low(key.sentence), high(key.sentence)},
                                  {low(seed), high(seed)});
  const uint64_t number = (uint64_t{bits[0]} << 32 | bits[1]) >> 11;
  return static_cast<double>(number) * 0x1p-53;
}

/// Keeps the top_k candidates, the most probable first.
void TokenSampler::keep_most_probable() {
  const auto k = static_cast<size_t>(options_.top_k);
  if (k == 0) return;
  if (k < candidates_.size()) {
    std::nth_element(candidates_.begin(), candidates_.begin() + options_.top_k, candidates_.end(), before);
    candidates_.resize(k);
  }
  std::sort(candidates_.begin(), candidates_.end(), before);
}

DrawnToken TokenSampler::draw(ConstTensor logits, std::span<const int32_t> banned, double uniform) {
  VENTRIS_CHECK(logits.cols >= vocab_, "{} logits for {} tokens", logits.cols, vocab_);
  candidates_.clear();
  double log_sum = 0.0;
  dispatch_dtype(logits.dtype, [&](auto tag) {
    using T = decltype(tag);
    const T* x = logits.as<T>();
    const auto maximum = row_max(x, vocab_);
    log_sum = static_cast<double>(maximum) + portable_log(row_exp_sum(x, vocab_, maximum));
    for (int32_t token = 0; token < static_cast<int32_t>(vocab_); ++token) {
      candidates_.emplace_back(static_cast<double>(load(x[token])), token);
    }
  });
  // From the end, so that the preceding tokens keep their positions.
  std::vector<int32_t> gone(banned.begin(), banned.end());
  std::sort(gone.begin(), gone.end());
  gone.erase(std::unique(gone.begin(), gone.end()), gone.end());
  std::erase_if(candidates_,
                [&](const Candidate& c) { return std::binary_search(gone.begin(), gone.end(), c.second); });
  VENTRIS_CHECK(!candidates_.empty(), "all {} tokens are banned", vocab_);
  keep_most_probable();

  const double best = std::min_element(candidates_.begin(), candidates_.end(), before)->first;
  const auto weight = [&](const Candidate& c) {
    return portable_exp((c.first - best) / static_cast<double>(options_.temperature));
  };
  weights_.clear();
  double total = 0.0;
  for (const Candidate& candidate : candidates_) total += weight(candidate);
  if (options_.top_p < 1.0F) {
    // Moves the most probable to the end of the list one by one, until their sum is sufficient.
    const double enough = static_cast<double>(options_.top_p) * total;
    total = 0.0;
    std::make_heap(candidates_.begin(), candidates_.end(), after);
    auto rest = candidates_.end();
    do {
      std::pop_heap(candidates_.begin(), rest, after);
      --rest;
      weights_.push_back(weight(*rest));
      total += weights_.back();
    } while (rest != candidates_.begin() && total < enough);
    std::reverse(rest, candidates_.end());
    candidates_.erase(candidates_.begin(), rest);
  } else {
    for (const Candidate& candidate : candidates_) weights_.push_back(weight(candidate));
  }

  double left = uniform * total;
  size_t chosen = 0;
  while (chosen + 1 < weights_.size() && left >= weights_[chosen]) left -= weights_[chosen++];
  return {candidates_[chosen].second, candidates_[chosen].first - log_sum};
}

}  // namespace ventris
