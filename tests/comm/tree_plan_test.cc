// SPDX-License-Identifier: Apache-2.0
#include "comm/tree_sum.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "backend/device/error.h"

namespace ventris {
namespace {

TEST(TreePlan, AnyShareLeavesFewNodes) {
  for (const int64_t terms : {1000, 1023, 1024, 1025}) {
    for (int rank = 0; rank < 3; ++rank) {
      const TreeShare share(terms, share_of_rank(terms, rank, 3));
      EXPECT_LE(share.nodes().size(), 2 * 11U);
      EXPECT_LE(share.stack_size(), 2 * 11);
    }
  }
}

TEST(TreePlan, RefusesWhatIsNoShareAndNodesThatAreNotOfTheTree) {
  EXPECT_THROW(TreeShare(4, {2, 5}), Error);
  EXPECT_THROW(TreeShare(4, {3, 2}), Error);
  EXPECT_THROW(TreeAdditions(4, {{0, 1}, {1, 3}, {3, 4}}), Error);
  EXPECT_THROW(TreeAdditions(4, {{2, 4}, {0, 2}}), Error);
  EXPECT_THROW(TreeAdditions(4, {{0, 2}, {1, 2}}), Error);
  EXPECT_THROW(TreeAdditions(4, {{0, 8}}), Error);
}

TEST(TreePlan, NodesThatAreNotNeighboursInTheTreeRemain) {
  const TreeAdditions additions(16, {{0, 1}, {2, 3}, {3, 4}, {5, 6}, {6, 7}, {8, 12}, {12, 14}, {14, 16}});
  EXPECT_EQ(additions.after, (std::vector<int>{0, 0, 1, 0, 0, 0, 0, 2}));
  EXPECT_EQ(additions.nodes, (std::vector<TreeNode>{{0, 1}, {2, 4}, {5, 6}, {6, 7}, {8, 16}}));
}

}  // namespace
}  // namespace ventris
