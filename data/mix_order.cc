// SPDX-License-Identifier: Apache-2.0
#include "data/mix_order.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

namespace ventris::data {

namespace {

constexpr int64_t kSmallestBlock = 1024;
constexpr int64_t kLargestBlock = 65536;
constexpr double kDrawsOfSmallestShare = 32.0;  // in a block: rounding changes such a share by at most 2 %
constexpr std::string_view kStageKey = "stage of a mix";
constexpr std::string_view kCorpusKey = "corpus of a mix: ";

uint64_t key_of_text(std::string_view text, uint64_t seed) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

/// The positive shares of a stage, of the sum 1.
std::vector<double> shares_of(const MixStage& stage) {
  std::vector<double> shares;
  double sum = 0.0;
  for (const MixShare& share : stage.shares) sum += share.share;
  for (const MixShare& share : stage.shares) {
    if (share.share > 0.0) shares.push_back(share.share / sum);
  }
  return shares;
}

int64_t block_for(const std::vector<double>& shares) {
  const double smallest = *std::min_element(shares.begin(), shares.end());
  int64_t block = kSmallestBlock;
  while (block < kLargestBlock && static_cast<double>(block) * smallest < kDrawsOfSmallestShare) block *= 4;
  return block;
}

/// The draws of a block by the largest remainder, equal ones in the order of the stage.
std::vector<int64_t> counts_for(const std::vector<double>& shares, int64_t block) {
  std::vector<int64_t> counts;
  std::vector<double> remainders;
  int64_t left = block;
  for (const double share : shares) {
    const double exact = share * static_cast<double>(block);
    counts.push_back(std::max<int64_t>(1, static_cast<int64_t>(std::floor(exact))));
    remainders.push_back(exact - static_cast<double>(counts.back()));
    left -= counts.back();
  }
  for (; left > 0; --left) {
    const auto largest = std::max_element(remainders.begin(), remainders.end());
    ++counts[static_cast<size_t>(largest - remainders.begin())];
    *largest -= 1.0;
  }
  // Corpora of less than one draw may have taken too many.
  for (; left < 0; ++left) --*std::max_element(counts.begin(), counts.end());
  return counts;
}

}  // namespace

StageOrder::StageOrder(const MixStage& stage, int64_t number, const std::vector<CorpusPart>& parts,
                       uint64_t seed)
    : parts_(parts.size()),
      block_(block_for(shares_of(stage))),
      key_(key_of_text(kStageKey, seed) + static_cast<uint64_t>(number)),
      order_(block_, key_, 0) {
  const std::vector<int64_t> counts = counts_for(shares_of(stage), block_);
  size_t drawn = 0;
  int64_t end = 0;
  for (const auto& [corpus, share] : stage.shares) {
    if (share <= 0.0) continue;
    const auto part = std::find_if(parts.begin(), parts.end(),
                                   [&name = corpus](const CorpusPart& any) { return any.name == name; });
    end += counts[drawn];
    slots_.push_back({static_cast<size_t>(part - parts.begin()), counts[drawn], end});
    ++drawn;
  }
}

std::vector<int64_t> StageOrder::counts_of(int64_t draws) {
  std::vector<int64_t> counts(parts_, 0);
  const int64_t whole = draws / block_;
  for (const Slots& slots : slots_) counts[slots.part] = whole * slots.count;
  for (int64_t draw = whole * block_; draw < draws; ++draw) ++counts[(*this)(draw)];
  return counts;
}

size_t StageOrder::operator()(int64_t draw) {
  const int64_t block = draw / block_;
  if (block != permuted_) {
    permuted_ = block;
    order_ = Permutation(block_, key_, static_cast<uint64_t>(block));
  }
  const int64_t slot = order_(draw % block_);
  return std::upper_bound(slots_.begin(), slots_.end(), slot,
                          [](int64_t wanted, const Slots& slots) { return wanted < slots.end; })
      ->part;
}

CorpusOrder::CorpusOrder(const CorpusPart& part, uint64_t seed)
    : first_(part.first),
      pairs_(part.pairs),
      key_(key_of_text(std::string(kCorpusKey) + part.name, seed)),
      order_(pairs_, key_, 0) {}

DrawnPair CorpusOrder::operator()(int64_t draw) {
  const int64_t epoch = draw / pairs_;
  if (epoch != epoch_) {
    epoch_ = epoch;
    order_ = Permutation(pairs_, key_, static_cast<uint64_t>(epoch));
  }
  return {.pair = first_ + order_(draw % pairs_), .epoch = epoch};
}

}  // namespace ventris::data
