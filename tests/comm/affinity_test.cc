// SPDX-License-Identifier: Apache-2.0
#include "comm/affinity.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace ventris {
namespace {

using Masks = std::vector<std::vector<uint8_t>>;

TEST(Affinity, RanksBoundToCoresOfTheirOwnKeepAllOfThem) {
  const Masks masks = {{1, 1, 0, 0}, {0, 0, 1, 1}};
  EXPECT_EQ(core_share(masks, 0), 2);
  EXPECT_EQ(core_share(masks, 1), 2);
}

TEST(Affinity, RanksThatAreNotBoundShareTheCores) {
  const Masks masks(3, {1, 1, 1, 1, 1, 1});
  for (size_t which = 0; which < 3; ++which) EXPECT_EQ(core_share(masks, which), 2);
}

TEST(Affinity, CoresThatPartOfTheRanksShareAreDivided) {
  const Masks masks = {{1, 1, 1, 0}, {0, 1, 1, 1}};
  EXPECT_EQ(core_share(masks, 0), 2);
}

TEST(Affinity, MoreRanksThanCoresGetOneEach) {
  const Masks masks(5, {1, 1, 0});
  for (size_t which = 0; which < 5; ++which) EXPECT_EQ(core_share(masks, which), 1);
}

TEST(Affinity, ThisProcessMayRunSomewhere) {
  EXPECT_GE(core_share({affinity_mask()}, 0), 1);
  EXPECT_FALSE(host_name().empty());
}

}  // namespace
}  // namespace ventris
