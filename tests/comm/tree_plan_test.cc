// SPDX-License-Identifier: Apache-2.0
#include "comm/tree_plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/error.h"

namespace ventris {
namespace {

/// The sum of terms [begin, end) by the definition of the tree, written down as text.
std::string by_definition(int64_t begin, int64_t end) {
  if (end - begin == 1) return std::to_string(begin);
  int64_t half = 1;
  while (2 * half < end - begin) half *= 2;
  return "(" + by_definition(begin, begin + half) + "+" + by_definition(begin + half, end) + ")";
}

/// The sum of all terms as the shares and the additions of their nodes make it.
std::string by_plan(int64_t terms, int ranks) {
  std::vector<TreeNode> nodes;
  std::vector<std::string> sums;
  for (int rank = 0; rank < ranks; ++rank) {
    const TreeNode share = share_of_rank(terms, rank, ranks);
    const TreeShare plan(terms, share);
    std::vector<std::string> stack;
    for (int64_t term = share.begin; term < share.end; ++term) {
      EXPECT_EQ(static_cast<int>(stack.size()), plan.stacked_before(term));
      EXPECT_LE(static_cast<int>(stack.size()), plan.stack_size());
      std::string sum = std::to_string(term);
      for (int i = 0; i < plan.additions_after(term); ++i) {
        sum = "(" + stack.back() + "+" + sum + ")";
        stack.pop_back();
      }
      stack.push_back(sum);
    }
    EXPECT_EQ(stack.size(), plan.nodes().size());
    nodes.insert(nodes.end(), plan.nodes().begin(), plan.nodes().end());
    sums.insert(sums.end(), stack.begin(), stack.end());
  }
  const TreeAdditions additions(terms, nodes);
  EXPECT_EQ(additions.nodes, (std::vector<TreeNode>{{0, terms}}));
  std::vector<std::string> stack;
  for (size_t i = 0; i < sums.size(); ++i) {
    std::string sum = sums[i];
    for (int k = 0; k < additions.after[i]; ++k) {
      sum = "(" + stack.back() + "+" + sum + ")";
      stack.pop_back();
    }
    stack.push_back(sum);
  }
  return stack.at(0);
}

TEST(TreePlan, EveryNumberOfRanksAddsTheTermsInTheSameTree) {
  EXPECT_EQ(by_definition(0, 6), "(((0+1)+(2+3))+(4+5))");
  EXPECT_EQ(by_definition(0, 7), "(((0+1)+(2+3))+((4+5)+6))");
  for (int64_t terms = 1; terms <= 40; ++terms) {
    const std::string expected = by_definition(0, terms);
    for (int ranks = 1; ranks <= 12; ++ranks)
      ASSERT_EQ(by_plan(terms, ranks), expected) << terms << " terms on " << ranks << " ranks";
  }
}

TEST(TreePlan, AnAlignedPowerOfTwoLeavesOneNodeAndStacksItsLogarithm) {
  for (int doublings = 0; doublings <= 10; ++doublings) {
    const int64_t terms = int64_t{1} << doublings;
    const TreeShare share(4 * terms, {2 * terms, 3 * terms});
    EXPECT_EQ(share.nodes(), (std::vector<TreeNode>{{2 * terms, 3 * terms}}));
    EXPECT_EQ(share.stack_size(), doublings);
  }
}

TEST(TreePlan, AnyShareLeavesFewNodes) {
  for (const int64_t terms : {1000, 1023, 1024, 1025}) {
    for (int rank = 0; rank < 3; ++rank) {
      const TreeShare share(terms, share_of_rank(terms, rank, 3));
      EXPECT_LE(share.nodes().size(), 2 * 11U);
      EXPECT_LE(share.stack_size(), 2 * 11);
    }
  }
}

TEST(TreePlan, SharesMayBeEmpty) {
  const TreeShare share(2, share_of_rank(2, 0, 3));
  EXPECT_TRUE(share.nodes().empty());
  EXPECT_EQ(share.stack_size(), 0);
}

TEST(TreePlan, SharesOfAllRanksAreAllTerms) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    int64_t next = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const TreeNode share = share_of_rank(7, rank, ranks);
      EXPECT_EQ(share.begin, next);
      next = share.end;
    }
    EXPECT_EQ(next, 7);
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
