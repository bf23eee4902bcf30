// SPDX-License-Identifier: Apache-2.0
#include "data/pair_lengths.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "data/batches.h"
#include "tests/data/corpus_part.h"

namespace ventris::data {
namespace {

/// Pairs in memory of which each side has a length of its own: 3 i + 1 and 3 i + 2 of pair i, up to some
/// thousands.
class LongPairs {
 public:
  explicit LongPairs(int64_t pairs) {
    for (int64_t i = 0; i < pairs; ++i) {
      source_.push_back(source_.back() + source_length(i));
      target_.push_back(target_.back() + source_length(i) + 1);
    }
  }
  static int64_t source_length(int64_t pair) { return 3 * (pair % 1000) + 1; }
  SentencePairs pairs() const {
    const int64_t count = std::ssize(source_) - 1;
    return {{nullptr, source_.data(), count}, {nullptr, target_.data(), count}};
  }

 private:
  std::vector<int64_t> source_{0};
  std::vector<int64_t> target_{0};
};

TEST(PairLengths, AllArePresentForAnyNumberOfThreads) {
  const LongPairs held(200000);  // several pieces
  const SentencePairs pairs = held.pairs();
  for (const int threads : {1, 3}) {
    const PairLengths lengths = PairLengths::of_all(pairs, threads);
    ASSERT_EQ(lengths.pairs().size(), pairs.size());
    EXPECT_EQ(lengths.pairs().source.total_tokens(), pairs.source.total_tokens());
    EXPECT_EQ(lengths.pairs().target.total_tokens(), pairs.target.total_tokens());
    for (int64_t i = 0; i < pairs.size(); ++i) {
      ASSERT_EQ(lengths.pairs().source.length(i), pairs.source.length(i));
      ASSERT_EQ(lengths.pairs().target.length(i), pairs.target.length(i));
    }
  }
}

TEST(PairLengths, FillTheBatchesOfTheirPairs) {
  const LongPairs held(500);
  const SentencePairs pairs = held.pairs();
  const PairLengths lengths = PairLengths::of_all(pairs, 1);
  const BatchOptions options = {.source_tokens = 9000, .target_tokens = 9000, .shards = 2, .seed = 5};
  const std::vector<CorpusPart> parts = {part_of(pairs, "train")};
  const BatchSource wanted(pairs, parts, options);
  const BatchSource found(lengths.pairs(), parts, options);
  DataPosition at;
  while (at.epoch < 2) {
    const GlobalBatch batch = wanted.at(at);
    const GlobalBatch same = found.at(at);
    ASSERT_EQ(same.next, batch.next);
    for (size_t shard = 0; shard < batch.shards.size(); ++shard) {
      EXPECT_EQ(same.shards[shard].pairs, batch.shards[shard].pairs);
      EXPECT_EQ(same.shards[shard].source_rows, batch.shards[shard].source_rows);
      EXPECT_EQ(same.shards[shard].target_rows, batch.shards[shard].target_rows);
    }
    at = batch.next;
  }
}

TEST(PairLengths, BlocksAreNeighboursAnywhereInTheirRanges) {
  constexpr int64_t kPairs = 1000;  // whose lengths differ
  constexpr int64_t kBlocks = 7;
  constexpr int64_t kSize = 20;
  const LongPairs held(kPairs);
  const SentencePairs pairs = held.pairs();
  std::set<int64_t> begins;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const PairLengths lengths = PairLengths::of_blocks(pairs, kBlocks, kSize, seed);
    const SentencePairs& found = lengths.pairs();
    ASSERT_EQ(found.size(), kBlocks * kSize);
    int64_t tokens = 0;
    for (int64_t block = 0; block < kBlocks; ++block) {
      const int64_t first = (found.source.length(block * kSize) - 1) / 3;
      EXPECT_GE(first, block * kPairs / kBlocks);
      EXPECT_LE(first + kSize, (block + 1) * kPairs / kBlocks);
      begins.insert(first);
      for (int64_t i = 0; i < kSize; ++i) {
        EXPECT_EQ(found.source.length(block * kSize + i), LongPairs::source_length(first + i));
        EXPECT_EQ(found.target.length(block * kSize + i), LongPairs::source_length(first + i) + 1);
        tokens += LongPairs::source_length(first + i);
      }
    }
    EXPECT_EQ(found.source.total_tokens(), tokens);
    EXPECT_EQ(found.target.total_tokens(), tokens + kBlocks * kSize);
  }
  EXPECT_GT(begins.size(), 200U);  // of 280
  // Ranges of no pair too many.
  const PairLengths every = PairLengths::of_blocks(pairs, kPairs / kSize, kSize, 1);
  EXPECT_EQ(every.pairs().source.total_tokens(), pairs.source.total_tokens());
}

}  // namespace
}  // namespace ventris::data
