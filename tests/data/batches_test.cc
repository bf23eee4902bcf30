// SPDX-License-Identifier: Apache-2.0
#include "data/batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "data/error.h"
#include "data/mix_plan.h"
#include "data/packer.h"
#include "data/permutation.h"
#include "data/text/tokenizer.h"
#include "tests/data/corpus_part.h"
#include "tests/data/text/sentencepiece_model.h"

namespace ventris::data {
namespace {

/// Pairs in memory whose lengths vary; every token is unique to its place.
class MemoryPairs {
 public:
  explicit MemoryPairs(int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      add(source_, source_offsets_, (i * 7) % 13 + 1, 1000 * static_cast<int32_t>(i));
      add(target_, target_offsets_, (i * 5) % 11 + 1, 1000 * static_cast<int32_t>(i) + 500);
    }
  }
  SentencePairs pairs() const {
    const auto count = static_cast<int64_t>(source_offsets_.size()) - 1;
    return {{source_.data(), source_offsets_.data(), count}, {target_.data(), target_offsets_.data(), count}};
  }

 private:
  static void add(std::vector<int32_t>& tokens, std::vector<int64_t>& offsets, int64_t length,
                  int32_t first) {
    for (int64_t i = 0; i < length; ++i) {
      tokens.push_back(first + static_cast<int32_t>(i));
    }
    offsets.push_back(static_cast<int64_t>(tokens.size()));
  }
  std::vector<int32_t> source_, target_;
  std::vector<int64_t> source_offsets_{0}, target_offsets_{0};
};

BatchSource batches_of(const SentencePairs& pairs, const BatchOptions& options) {
  return {pairs, {part_of(pairs, "train")}, options};
}

std::vector<int64_t> pairs_of(const GlobalBatch& batch) {
  std::vector<int64_t> all;
  for (const Shard& shard : batch.shards) {
    for (const DrawnPair& drawn : shard.pairs) all.push_back(drawn.pair);
  }
  return all;
}

void pack(const SentencePairs& pairs, const std::vector<int64_t>& indices, PackedBatch& packed) {
  static const TokenizerPair tokenizers(Tokenizer(marks() + piece("a"), "a test"));  // begin 1, end 2
  Packer packer(tokenizers, packed);
  for (const int64_t pair : indices)
    packer.add(pairs.source[pair], pairs.target[pair], 0.5F * static_cast<float>(pair));
}

void expect_equal(const GlobalBatch& a, const GlobalBatch& b) {
  EXPECT_EQ(pairs_of(a), pairs_of(b));
  EXPECT_EQ(a.next, b.next);
  ASSERT_EQ(a.shards.size(), b.shards.size());
  for (size_t k = 0; k < a.shards.size(); ++k) {
    EXPECT_EQ(a.shards[k].pairs, b.shards[k].pairs);
    EXPECT_EQ(a.shards[k].source_row_base, b.shards[k].source_row_base);
    EXPECT_EQ(a.shards[k].target_row_base, b.shards[k].target_row_base);
  }
}

TEST(BatchesTest, EveryPairComesOnceAnEpochAcrossBatches) {
  const MemoryPairs memory(503);
  const SentencePairs pairs = memory.pairs();
  const BatchSource source =
      batches_of(pairs, {.source_tokens = 200, .target_tokens = 180, .shards = 4, .seed = 9});
  std::vector<int64_t> sequence;
  std::vector<int64_t> epochs;
  DataPosition position;
  while (position.epoch < 4) {
    const GlobalBatch batch = source.at(position);
    const std::vector<int64_t> all = pairs_of(batch);
    EXPECT_EQ(batch.pairs, static_cast<int64_t>(all.size()));
    ASSERT_FALSE(all.empty());
    sequence.insert(sequence.end(), all.begin(), all.end());
    for (const Shard& shard : batch.shards) {
      for (const DrawnPair& drawn : shard.pairs) epochs.push_back(drawn.epoch);
    }
    position = batch.next;
  }
  for (size_t epoch = 0; epoch < 4; ++epoch) {
    const auto begin = sequence.begin() + static_cast<ptrdiff_t>(503 * epoch);
    std::vector<int64_t> seen(begin, begin + 503);
    EXPECT_EQ(seen[0], Permutation(503, 9, epoch)(0));
    std::sort(seen.begin(), seen.end());
    std::vector<int64_t> expected(503);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(seen, expected) << "epoch " << epoch;
    EXPECT_EQ(std::count(epochs.begin(), epochs.end(), static_cast<int64_t>(epoch)), 503);
  }
}

TEST(BatchesTest, ShardsKeepTheirCapacityAndAreFilled) {
  const MemoryPairs memory(1000);
  const SentencePairs pairs = memory.pairs();
  for (const int shards : {1, 2, 3, 8}) {
    const BatchSource source =
        batches_of(pairs, {.source_tokens = 400, .target_tokens = 330, .shards = shards, .seed = 2});
    EXPECT_EQ(source.shard_source_capacity(), 400 / shards);
    EXPECT_EQ(source.shard_target_capacity(), 330 / shards);
    DataPosition position;
    for (int step = 0; step < 40; ++step) {
      const GlobalBatch batch = source.at(position);
      ASSERT_EQ(batch.shards.size(), static_cast<size_t>(shards));
      for (const Shard& shard : batch.shards) {
        EXPECT_LE(shard.source_rows, 400 / shards);
        EXPECT_LE(shard.target_rows, 330 / shards);
        // No pair is longer than 14 and 12 rows: a shard with more room than this on both sides was closed
        // too early.
        EXPECT_TRUE(shard.source_rows > 400 / shards - 14 || shard.target_rows > 330 / shards - 12);
      }
      position = batch.next;
    }
  }
}

TEST(BatchesTest, RowBasesAreSumsOfTheRowsBefore) {
  const MemoryPairs memory(300);
  const SentencePairs pairs = memory.pairs();
  const BatchSource source =
      batches_of(pairs, {.source_tokens = 300, .target_tokens = 300, .shards = 5, .seed = 2});
  const GlobalBatch batch = source.at({1, 17});
  int64_t source_rows = 0;
  int64_t target_rows = 0;
  for (const Shard& shard : batch.shards) {
    EXPECT_EQ(shard.source_row_base, source_rows);
    EXPECT_EQ(shard.target_row_base, target_rows);
    int64_t in_shard = 0;
    for (const DrawnPair& drawn : shard.pairs) {
      in_shard += pairs.source.length(drawn.pair) + 1;
      target_rows += pairs.target.length(drawn.pair) + 1;
    }
    EXPECT_EQ(shard.source_rows, in_shard);
    source_rows += in_shard;
  }
  EXPECT_EQ(batch.source_tokens, source_rows);
  EXPECT_EQ(batch.target_tokens, target_rows);
}

TEST(BatchesTest, ABatchIsAFunctionOfItsPosition) {
  const MemoryPairs memory(211);
  const SentencePairs pairs = memory.pairs();
  const BatchOptions options{.source_tokens = 150, .target_tokens = 150, .shards = 2, .seed = 5};
  const BatchSource one = batches_of(pairs, options);
  std::vector<DataPosition> positions{{0, 0}};
  std::vector<GlobalBatch> batches;
  for (int step = 0; step < 30; ++step) {
    batches.push_back(one.at(positions.back()));
    positions.push_back(batches.back().next);
  }
  EXPECT_GT(positions.back().epoch, 0);
  const BatchSource other = batches_of(pairs, options);
  for (size_t step = 30; step-- > 0;) {
    expect_equal(other.at(positions[step]), batches[step]);
  }
}

TEST(BatchesTest, ABatchMayBeLargerThanTheCorpus) {
  const MemoryPairs memory(3);
  const SentencePairs pairs = memory.pairs();
  const BatchSource source =
      batches_of(pairs, {.source_tokens = 500, .target_tokens = 500, .shards = 1, .seed = 5});
  const GlobalBatch batch = source.at({0, 1});
  EXPECT_GT(batch.pairs, 9);
  EXPECT_EQ((batch.next.epoch * 3 + batch.next.index) - 1, batch.pairs);
}

TEST(BatchesTest, APairThatFitsNoShardIsAnErrorThatNamesTheOption) {
  const MemoryPairs memory(100);
  const SentencePairs pairs = memory.pairs();
  EXPECT_NO_THROW(batches_of(pairs, {.source_tokens = 14, .target_tokens = 12, .shards = 1, .seed = 1}));
  try {
    batches_of(pairs, {.source_tokens = 27, .target_tokens = 100, .shards = 2, .seed = 1});
    FAIL();
  } catch (const DataError& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBadConfiguration);
    EXPECT_NE(std::string(error.what()).find("--batch-source-tokens to at least 28"), std::string::npos)
        << error.what();
  }
  EXPECT_THROW(batches_of(pairs, {.source_tokens = 100, .target_tokens = 11, .shards = 1, .seed = 1}),
               DataError);
  EXPECT_THROW(batches_of(pairs, {.source_tokens = 100, .target_tokens = 100, .shards = 0, .seed = 1}),
               DataError);
  const SentencePairs none;
  EXPECT_THROW(batches_of(none, BatchOptions{}), DataError);
}

TEST(BatchesTest, APositionOutsideTheCorpusIsRefused) {
  const MemoryPairs memory(10);
  const SentencePairs pairs = memory.pairs();
  const BatchSource source = batches_of(pairs, BatchOptions{});
  EXPECT_THROW(source.at({0, 10}), DataError);
  EXPECT_THROW(source.at({0, -1}), DataError);
  EXPECT_THROW(source.at({-1, 0}), DataError);
}

TEST(BatchesTest, PackingShiftsTargetsRightAndEndsSources) {
  const std::vector<int32_t> source = {11, 12, 13, 21};
  const std::vector<int64_t> source_offsets = {0, 3, 4};
  const std::vector<int32_t> target = {31, 41, 42};
  const std::vector<int64_t> target_offsets = {0, 1, 3};
  const SentencePairs pairs{{source.data(), source_offsets.data(), 2},
                            {target.data(), target_offsets.data(), 2}};
  PackedBatch packed;
  pack(pairs, {0, 1, 0}, packed);  // overwritten by the next call
  pack(pairs, {1, 0}, packed);
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(packed.source_ids, (Ids{21, 2, 11, 12, 13, 2}));
  EXPECT_EQ(packed.source_position, (Ids{0, 1, 0, 1, 2, 3}));
  EXPECT_EQ(packed.source_offsets, (Ids{0, 2, 6}));
  EXPECT_EQ(packed.target_ids, (Ids{1, 41, 42, 1, 31}));
  EXPECT_EQ(packed.labels, (Ids{41, 42, 2, 31, 2}));
  EXPECT_EQ(packed.target_position, (Ids{0, 1, 2, 0, 1}));
  EXPECT_EQ(packed.target_offsets, (Ids{0, 3, 5}));
  EXPECT_EQ(packed.sentences(), 2);
  EXPECT_EQ(packed.source_rows(), 6);
  EXPECT_EQ(packed.target_rows(), 5);
  EXPECT_EQ(packed.weights, (std::vector<float>{0.5F, 0.0F}));
  pack(pairs, {}, packed);
  EXPECT_EQ(packed.sentences(), 0);
  EXPECT_TRUE(packed.weights.empty());
  EXPECT_EQ(packed.source_offsets, (Ids{0}));
}

/// A file of two corpora: pairs 0 to 99 are "clean", 100 to 299 "bt".
class MixedBatchesTest : public testing::Test {
 protected:
  std::vector<CorpusPart> parts() const {
    return {{.name = "clean", .first = 0, .pairs = 100, .longest_source = 13, .longest_target = 11},
            {.name = "bt", .first = 100, .pairs = 200, .longest_source = 13, .longest_target = 11}};
  }
  BatchSource source(const std::string& plan) const {
    return {pairs_,
            parts(),
            {.source_tokens = 90,
             .target_tokens = 90,
             .shards = 2,
             .seed = 4,
             .mix = parse_mix_plan(plan, "test")}};
  }
  static int64_t count_of(const std::vector<int64_t>& pairs, bool clean) {
    return std::count_if(pairs.begin(), pairs.end(), [&](int64_t pair) { return (pair < 100) == clean; });
  }

  const MemoryPairs memory_{300};
  const SentencePairs pairs_ = memory_.pairs();
};

TEST_F(MixedBatchesTest, StagesFollowOneAnotherBetweenSteps) {
  const BatchSource batches =
      source("clean 1 until 3 steps\nboth: clean 3 bt 1 until bt 1\nbt 1 until 2 steps");
  DataPosition position;
  std::vector<int64_t> steps(3, 0);
  std::vector<int64_t> drawn{0, 0};
  std::vector<int64_t> of_stage;
  int64_t bt_of_stage = 0;
  while (!batches.ended(position)) {
    const auto stage = static_cast<size_t>(position.mix.stage);
    EXPECT_EQ(position.mix.steps, steps[stage]);
    EXPECT_EQ(batches.drawn(position), drawn);
    const GlobalBatch batch = batches.at(position);
    const std::vector<int64_t> all = pairs_of(batch);
    drawn[0] += count_of(all, true);
    drawn[1] += count_of(all, false);
    ++steps[stage];
    if (stage == 0) {
      EXPECT_EQ(count_of(all, false), 0);
    }
    if (stage == 1) {
      EXPECT_LT(bt_of_stage, 200);  // otherwise it would have ended before
      bt_of_stage += count_of(all, false);
      of_stage.insert(of_stage.end(), all.begin(), all.end());
    }
    if (stage == 2) {
      EXPECT_EQ(count_of(all, true), 0);
    }
    position = batch.next;
    EXPECT_EQ(position.epoch * 300 + position.index, drawn[0] + drawn[1]);
  }
  EXPECT_EQ(steps[0], 3);
  EXPECT_GE(bt_of_stage, 200);
  EXPECT_EQ(steps[2], 2);
  EXPECT_NEAR(static_cast<double>(bt_of_stage) / static_cast<double>(of_stage.size()), 0.25, 0.03);
}

TEST_F(MixedBatchesTest, EachCorpusIsDrawnOnceAnEpochOverAllStages) {
  const BatchSource batches = source("clean 1 bt 1 until 7 steps\nclean 2 bt 1 until 9 steps\nclean 1 bt 4");
  std::vector<DrawnPair> clean;
  DataPosition position;
  for (int step = 0; step < 200; ++step) {
    const GlobalBatch batch = batches.at(position);
    for (const Shard& shard : batch.shards) {
      for (const DrawnPair& drawn : shard.pairs) {
        if (drawn.pair < 100) clean.push_back(drawn);
      }
    }
    position = batch.next;
  }
  ASSERT_GE(clean.size(), 200U);
  for (size_t epoch = 0; epoch < 2; ++epoch) {
    std::vector<int64_t> seen;
    for (size_t k = 100 * epoch; k < 100 * (epoch + 1); ++k) {
      EXPECT_EQ(clean[k].epoch, static_cast<int64_t>(epoch));
      seen.push_back(clean[k].pair);
    }
    std::sort(seen.begin(), seen.end());
    std::vector<int64_t> expected(100);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(seen, expected);
  }
}

TEST_F(MixedBatchesTest, AnyPositionIsAStart) {
  const std::string plan = "clean 1 bt 2 until 5 steps\nbt 1 until bt 1\nclean 1 bt 1";
  const BatchSource one = source(plan);
  std::vector<DataPosition> positions{{}};
  for (int step = 0; step < 80; ++step) positions.push_back(one.at(positions.back()).next);
  EXPECT_EQ(positions.back().mix.stage, 2);
  const BatchSource other = source(plan);
  for (const size_t at : {60, 5, 4, 0, 33, 6, 80})
    expect_equal(one.at(positions[at]), other.at(positions[at]));
}

TEST_F(MixedBatchesTest, AStageThatStalledContinuesWithTheNext) {
  const BatchSource batches = source("clean 1 until stalled 2\nbt 1");
  DataPosition position;
  for (int step = 0; step < 50; ++step) position = batches.at(position).next;
  EXPECT_EQ(position.mix.stage, 0);
  EXPECT_EQ(position.mix.steps, 50);
  const std::vector<int64_t> before = batches.drawn(position);
  position = batches.after_stage(position);
  EXPECT_EQ(position.mix, (MixPosition{.stage = 1, .steps = 0, .draws = 0, .before = before}));
  EXPECT_EQ(count_of(pairs_of(batches.at(position)), true), 0);
}

TEST_F(MixedBatchesTest, APositionOfAnotherPlanIsRefused) {
  const BatchSource batches = source("clean 1");
  EXPECT_THROW(batches.at({.mix = {.stage = 2, .before = {0, 0}}}), DataError);
  EXPECT_THROW(batches.at({.mix = {.before = {0, 0, 0}}}), DataError);
  EXPECT_THROW(batches.at({.mix = {.draws = -1}}), DataError);
}

}  // namespace
}  // namespace ventris::data
