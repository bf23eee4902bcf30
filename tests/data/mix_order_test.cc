// SPDX-License-Identifier: Apache-2.0
#include "data/mix_order.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "data/mix_plan.h"

namespace ventris::data {
namespace {

std::vector<CorpusPart> parts_of(const std::vector<std::string>& names, int64_t pairs = 100) {
  std::vector<CorpusPart> parts;
  for (size_t i = 0; i < names.size(); ++i)
    parts.push_back({.name = names[i], .first = static_cast<int64_t>(i) * pairs, .pairs = pairs});
  return parts;
}

MixStage stage_of(const std::string& line) {
  return parse_mix_plan(line, "test").stages.front();
}

TEST(StageOrderTest, EveryBlockHasTheSharesByTheLargestRemainder) {
  // 1024 * .7 = 716.8, .2: 204.8, .1: 102.4; the two left go to the larger remainders.
  StageOrder order(stage_of("a .7 b .2 c .1"), 0, parts_of({"c", "b", "a"}), 3);
  ASSERT_EQ(order.block(), 1024);
  for (int64_t block = 0; block < 3; ++block) {
    std::vector<int64_t> counts(3, 0);
    for (int64_t draw = block * 1024; draw < (block + 1) * 1024; ++draw) ++counts[order(draw)];
    EXPECT_EQ(counts, (std::vector<int64_t>{102, 205, 717}));
  }
}

TEST(StageOrderTest, CountsAreThoseOfTheDraws) {
  StageOrder order(stage_of("a 3 b 1 c 0"), 2, parts_of({"a", "b", "c"}), 8);
  std::vector<int64_t> counts(3, 0);
  for (int64_t draw = 0; draw < 2500; ++draw) {
    if (draw % 97 == 0 || draw % 1024 < 2) {
      EXPECT_EQ(order.counts_of(draw), counts) << draw;
    }
    ++counts[order(draw)];
  }
  EXPECT_EQ(counts[2], 0);
}

TEST(StageOrderTest, SmallSharesGetLargerBlocksAndAtLeastOneDraw) {
  StageOrder rare(stage_of("a 0.999 b 0.001"), 0, parts_of({"a", "b"}), 1);
  EXPECT_EQ(rare.block(), 65536);
  EXPECT_EQ(rare.counts_of(65536), (std::vector<int64_t>{65470, 66}));
  StageOrder rarest(stage_of("a 1 b 1e-12 c 1e-12"), 0, parts_of({"a", "b", "c"}), 1);
  EXPECT_EQ(rarest.counts_of(65536), (std::vector<int64_t>{65534, 1, 1}));
}

TEST(StageOrderTest, TheOrderDependsOnSeedStageAndBlockAndNotOnTheFile) {
  const auto draws = [](const std::vector<std::string>& file, int64_t stage, uint64_t seed, int64_t from) {
    const std::vector<CorpusPart> parts = parts_of(file);
    StageOrder order(stage_of("a 1 b 2"), stage, parts, seed);
    std::string text;
    for (int64_t draw = from; draw < from + 200; ++draw) text += parts[order(draw)].name;
    return text;
  };
  const std::string first = draws({"a", "b"}, 0, 1, 0);
  EXPECT_EQ(draws({"x", "b", "y", "a"}, 0, 1, 0), first);
  EXPECT_NE(draws({"a", "b"}, 1, 1, 0), first);
  EXPECT_NE(draws({"a", "b"}, 0, 2, 0), first);
  EXPECT_NE(draws({"a", "b"}, 0, 1, 1024), first);
}

TEST(CorpusOrderTest, EveryPairOnceAnEpochAlikeAnywhereInAFile) {
  const CorpusPart alone{.name = "bt", .first = 0, .pairs = 37};
  const CorpusPart second{.name = "bt", .first = 1000, .pairs = 37};
  const CorpusPart other{.name = "clean", .first = 0, .pairs = 37};
  CorpusOrder order(alone, 5), moved(second, 5), unlike(other, 5), seeded(alone, 6);
  int64_t equal_to_other = 0, equal_to_seeded = 0, equal_to_next = 0;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<int64_t> seen;
    for (int64_t k = 0; k < 37; ++k) {
      const DrawnPair drawn = order(37 * epoch + k);
      EXPECT_EQ(drawn.epoch, epoch);
      seen.insert(drawn.pair);
      EXPECT_EQ(moved(37 * epoch + k), (DrawnPair{drawn.pair + 1000, epoch}));
      equal_to_other += unlike(37 * epoch + k) == drawn ? 1 : 0;
      equal_to_seeded += seeded(37 * epoch + k) == drawn ? 1 : 0;
      equal_to_next += order(37 * (epoch + 1) + k).pair == drawn.pair ? 1 : 0;
    }
    EXPECT_EQ(seen.size(), 37U);
    EXPECT_EQ(*seen.rbegin(), 36);
  }
  for (const int64_t equal : {equal_to_other, equal_to_seeded, equal_to_next}) EXPECT_LT(equal, 40);
}

}  // namespace
}  // namespace ventris::data
