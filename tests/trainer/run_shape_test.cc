// SPDX-License-Identifier: Apache-2.0
#include "trainer/run_shape.h"

#include <gtest/gtest.h>

#include "backend/device/error.h"

namespace ventris {
namespace {

constexpr LongestRows kShort = {.source = 100, .target = 100};

TEST(ResolvedShards, AreTheSmallestMultipleOfTheRanksThatFits) {
  TrainOptions run;
  run.batch_source_tokens = 25000;
  run.batch_target_tokens = 24000;
  EXPECT_EQ(resolved_shards(run, {}, 1, Device::kCpu, kShort), 7);
  EXPECT_EQ(resolved_shards(run, {}, 2, Device::kCpu, kShort), 8);
  EXPECT_EQ(resolved_shards(run, {}, 4, Device::kCpu, kShort), 8);
  EXPECT_EQ(resolved_shards(run, {}, 16, Device::kCpu, kShort), 16);
  EXPECT_EQ(resolved_shards(run, {}, 1, Device::kCuda, kShort), 1);
  EXPECT_EQ(resolved_shards(run, {}, 4, Device::kCuda, kShort), 4);
  EXPECT_EQ(resolved_shards(run, {"checkpoint", 7}, 4, Device::kCpu, kShort), 7);
  EXPECT_EQ(resolved_shards(run, {"checkpoint of before", 0}, 4, Device::kCpu, kShort), 8);
  run.micro_batch_tokens = 10000;
  EXPECT_EQ(resolved_shards(run, {}, 1, Device::kCpu, kShort), 3);
  EXPECT_EQ(resolved_shards(run, {}, 1, Device::kCuda, kShort), 3);
  run.micro_batch_tokens = 99;
  EXPECT_THROW(resolved_shards(run, {}, 1, Device::kCpu, kShort), Error);
  run.logical_shards = 3;
  EXPECT_EQ(resolved_shards(run, {}, 2, Device::kCpu, kShort), 3);
  EXPECT_EQ(resolved_shards(run, {"checkpoint", 7}, 2, Device::kCpu, kShort), 3);
}

TEST(ResolvedShards, OfAReproducibleRunFollowFromTheBatchWithMoreRanksThanShards) {
  TrainOptions run;
  run.reduction = Reduction::kReproducible;
  run.batch_source_tokens = 25000;
  run.batch_target_tokens = 24000;
  for (const int ranks : {1, 2, 3, 8}) EXPECT_EQ(resolved_shards(run, {}, ranks, Device::kCpu, kShort), 8);
  for (const int ranks : {9, 16, 1000}) EXPECT_EQ(resolved_shards(run, {}, ranks, Device::kCpu, kShort), 32);
  run.batch_source_tokens = run.batch_target_tokens = 2000;
  EXPECT_EQ(resolved_shards(run, {}, 64, Device::kCpu, kShort), 8);
  run.batch_source_tokens = 25000;
  run.batch_target_tokens = 24000;
  run.micro_batch_tokens = 2500;
  EXPECT_EQ(resolved_shards(run, {}, 3, Device::kCpu, kShort), 16);
  EXPECT_EQ(resolved_shards(run, {"checkpoint", 6}, 3, Device::kCpu, kShort), 6);
}

// Otherwise BatchSource refuses the corpus.
TEST(ResolvedShards, OfAReproducibleRunHoldTheLongestSentence) {
  TrainOptions run;
  run.reduction = Reduction::kReproducible;
  run.batch_source_tokens = 25000;
  run.batch_target_tokens = 24000;
  const auto shards = [&](int ranks, int64_t source, int64_t target) {
    return resolved_shards(run, {}, ranks, Device::kCpu, {.source = source, .target = target});
  };
  for (const int ranks : {9, 64, 1000}) {
    EXPECT_EQ(shards(ranks, 781, 750), 32) << "25,000 / 32 = 781";
    EXPECT_EQ(shards(ranks, 782, 100), 16);
    EXPECT_EQ(shards(ranks, 100, 751), 16);
    EXPECT_EQ(shards(ranks, 2000, 2000), 8);
  }
  EXPECT_EQ(shards(2, 782, 100), 8) << "no more than few ranks have";
  run.batch_source_tokens = run.batch_target_tokens = 2048;
  for (const int ranks : {1, 64}) {
    EXPECT_EQ(shards(ranks, 256, 256), 8);
    EXPECT_EQ(shards(ranks, 257, 100), 4);
    EXPECT_EQ(shards(ranks, 100, 2048), 1);
    EXPECT_EQ(shards(ranks, 100, 3000), 1) << "which is refused, with the reason";
  }
  run.micro_batch_tokens = 512;
  EXPECT_THROW(shards(64, 700, 700), Error) << "more tokens than a micro-batch may have";
}

}  // namespace
}  // namespace ventris
