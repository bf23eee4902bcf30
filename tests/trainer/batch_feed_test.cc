// SPDX-License-Identifier: Apache-2.0
#include "trainer/batch_feed.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <memory>
#include <vector>

#include "data/error.h"
#include "model/flop_count.h"
#include "model/transformer.h"
#include "tests/support/tiny_run.h"
#include "tests/support/weighted_corpus.h"

namespace ventris {
namespace {

using testing::TemporaryFolder;

std::vector<int32_t> numbers(const int32_t* first, int64_t count) {
  return {first, first + count};
}

class BatchFeedTest : public ::testing::Test {
 protected:
  static constexpr int kShards = 3;

  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    corpus_ = new data::Corpus(testing::make_tiny_corpus(*folder_));
  }
  static void TearDownTestSuite() {
    delete corpus_;
    delete folder_;
  }
  /// Of the pair of that number in the weighted corpus.
  static float weight_of(int64_t pair) { return 0.25F * static_cast<float>(pair % 7); }
  std::unique_ptr<BatchFeed> feed(const BatchFeed::Share& share, const BatchFeed::Start& start) {
    return std::make_unique<BatchFeed>(context_, *corpus_, source_, config_, capacity_, share, start);
  }
  /// What the feed gives is what packing the shard by hand gives.
  void expect_shard(const BatchFeed::Piece& piece, const data::GlobalBatch& batch, int64_t s, uint32_t step) {
    const data::Shard& shard = batch.shards[static_cast<size_t>(s)];
    data::PackedBatch packed;
    data::Packer packer(corpus_->tokenizers(), packed);
    for (const data::DrawnPair& drawn : shard.pairs)
      packer.add(corpus_->train().source[drawn.pair], corpus_->train().target[drawn.pair]);
    const MicroBatch& got = piece.batch;
    ASSERT_EQ(got.sentences, packed.sentences());
    ASSERT_EQ(got.source_rows, packed.source_rows());
    ASSERT_EQ(got.target_rows, packed.target_rows());
    EXPECT_EQ(numbers(got.source_ids, got.source_rows), packed.source_ids);
    EXPECT_EQ(numbers(got.target_ids, got.target_rows), packed.target_ids);
    EXPECT_EQ(numbers(got.labels, got.target_rows), packed.labels);
    EXPECT_EQ(numbers(got.target_offsets, got.sentences + 1), packed.target_offsets);
    EXPECT_EQ(got.source_dropout->step, step);
    EXPECT_EQ(got.target_dropout->step, step);
    EXPECT_EQ(got.source_dropout->row_base, shard.source_row_base);
    EXPECT_EQ(got.target_dropout->row_base, shard.target_row_base);
    EXPECT_EQ(*got.gradient_scale, static_cast<float>(1.0 / static_cast<double>(batch.target_tokens)));
    EXPECT_EQ(piece.flops.total(),
              training_flops(config_, packed.source_offsets, packed.target_offsets).total());
  }

  static TemporaryFolder* folder_;
  static data::Corpus* corpus_;
  Context context_{ContextOptions{}};
  const TransformerConfig config_ = {};
  const data::BatchSource source_{corpus_->train(),
                                  corpus_->parts(),
                                  {.source_tokens = 480, .target_tokens = 480, .shards = kShards, .seed = 3}};
  const MicroBatchCapacity capacity_ = {.source_rows = 160, .target_rows = 160, .sentences = 160};
};
TemporaryFolder* BatchFeedTest::folder_ = nullptr;
data::Corpus* BatchFeedTest::corpus_ = nullptr;

TEST_F(BatchFeedTest, GivesTheShardsOfEveryStepInOrder) {
  const auto all = feed({0, kShards}, {{0, 0}, 1});
  data::DataPosition position;
  for (uint32_t step = 1; step <= 20; ++step) {
    const data::GlobalBatch expected = source_.at(position);
    const data::GlobalBatch got = all->next_step();
    EXPECT_EQ(got.next, expected.next);
    EXPECT_EQ(got.target_tokens, expected.target_tokens);
    for (int64_t s = 0; s < kShards; ++s) expect_shard(all->next_micro_batch(), expected, s, step);
    position = expected.next;
  }
  EXPECT_GT(position.epoch, 0);
}

TEST_F(BatchFeedTest, GoesOnFromAnyStepWithTheShareOfARank) {
  data::DataPosition position;
  for (int step = 1; step <= 4; ++step) position = source_.at(position).next;
  const auto part = feed({1, 2}, {position, 5});
  for (uint32_t step = 5; step <= 9; ++step) {
    const data::GlobalBatch expected = source_.at(position);
    part->next_step();
    expect_shard(part->next_micro_batch(), expected, 1, step);
    position = expected.next;
  }
}

TEST_F(BatchFeedTest, RestartsAtAnotherPositionBetweenSteps) {
  const auto again = feed({0, kShards}, {{0, 0}, 1});
  data::DataPosition position;
  for (uint32_t step = 1; step <= 12; ++step) {
    if (step % 3 == 1) {  // as after a stage: the feed has gone on
      position = {.epoch = step, .index = 7};
      again->restart({position, step});
    }
    const data::GlobalBatch expected = source_.at(position);
    EXPECT_EQ(again->next_step().next, expected.next);
    for (int64_t s = 0; s < kShards; ++s) expect_shard(again->next_micro_batch(), expected, s, step);
    position = expected.next;
  }
}

TEST_F(BatchFeedTest, ARankWithoutShardsGetsTheStepsAlone) {
  const auto none = feed({2, 2}, {{0, 0}, 1});
  data::DataPosition position;
  for (int step = 1; step <= 10; ++step) {
    position = source_.at(position).next;
    EXPECT_EQ(none->next_step().next, position);
  }
}

TEST_F(BatchFeedTest, EachRowHasTheWeightOfItsPairWhereTheCorpusHasWeights) {
  const data::Corpus weighted(
      testing::write_weighted_corpus(corpus_->path(), *folder_ / "weighted.h5", weight_of));
  BatchFeed feed(context_, weighted, source_, config_, capacity_, {0, kShards}, {{0, 0}, 1});
  const auto plain = this->feed({0, kShards}, {{0, 0}, 1});
  const data::GlobalBatch batch = feed.next_step();
  plain->next_step();
  for (const data::Shard& shard : batch.shards) {
    std::vector<float> expected;
    for (const data::DrawnPair& drawn : shard.pairs)
      expected.insert(expected.end(), corpus_->train().target[drawn.pair].size() + 1, weight_of(drawn.pair));
    const MicroBatch& got = feed.next_micro_batch().batch;
    ASSERT_EQ(got.target_rows, std::ssize(expected));
    ASSERT_NE(got.weights, nullptr);
    EXPECT_EQ(std::vector<float>(got.weights, got.weights + got.target_rows), expected);
    EXPECT_EQ(plain->next_micro_batch().batch.weights, nullptr);
  }
}

TEST_F(BatchFeedTest, CanEndAtAnyTime) {
  for (int taken = 0; taken < 5; ++taken) {
    const auto short_lived = feed({0, kShards}, {{0, 0}, 1});
    if (taken > 0) short_lived->next_step();
    for (int i = 1; i < taken; ++i) short_lived->next_micro_batch();
  }
}

TEST_F(BatchFeedTest, AFailureOfTheThreadReachesTheCaller) {
  const auto failing = feed({0, kShards}, {{0, corpus_->train().size()}, 1});
  EXPECT_THROW(failing->next_step(), data::DataError);
}

}  // namespace
}  // namespace ventris
