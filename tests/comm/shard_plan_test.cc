// SPDX-License-Identifier: Apache-2.0
#include "comm/shard_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace ventris {
namespace {

TEST(GradientBuckets, AreTheSameRangesHoweverBackwardGoesOn) {
  for (const int64_t stride : {1, 3, 10}) {
    GradientBuckets buckets(10, 4);
    for (int step = 0; step < 2; ++step) {
      std::vector<TreeNode> begun;
      const auto start = [&](int64_t begin, int64_t count) { begun.push_back({begin, begin + count}); };
      for (int64_t begin = 10; begin > 0; begin -= std::min(begin, stride)) {
        buckets.ready(begin, start);
        for (const TreeNode& bucket : begun) EXPECT_GE(bucket.begin, begin);
      }
      buckets.ready(0, start);
      EXPECT_EQ(begun, (std::vector<TreeNode>{{8, 10}, {4, 8}, {0, 4}}));
      EXPECT_EQ(buckets.begun(), 0);
      buckets.start_again();
    }
    EXPECT_EQ(buckets.count(), 3);
  }
}

TEST(ShardPlan, GivesEveryElementToOneRankInEqualShares) {
  const int64_t unit = ShardPlan::unit();
  for (const int ranks : {1, 2, 3, 4, 5, 8, 15, 100, 700}) {
    for (const int64_t elements : {int64_t{1}, unit - 1, unit, unit + 1, 7 * unit + 5, ranks * unit - 1,
                                   ranks * unit, ranks * unit + 1, 1000 * unit, 1000 * unit + 64}) {
      for (const int64_t tail : {int64_t{0}, unit - 1, 33 * unit, elements}) {
        const ShardPlan plan(elements, 16 * unit * 4, ranks, tail);
        std::vector<TreeNode> all;
        int64_t fewest_units = elements;
        int64_t most_units = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          int64_t size = 0;
          for (const TreeNode& range : plan.ranges_of(rank)) {
            ASSERT_EQ(range.begin % unit, 0);
            all.push_back(range);
            size += range.size();
          }
          ASSERT_EQ(size, plan.size_of_share(rank));
          ASSERT_LE(size, plan.largest_share());
          const int64_t units = (size + unit - 1) / unit;
          fewest_units = std::min(fewest_units, units);
          most_units = std::max(most_units, units);
        }
        std::sort(all.begin(), all.end(), [](TreeNode a, TreeNode b) { return a.begin < b.begin; });
        int64_t end = 0;
        for (const TreeNode& range : all) {
          ASSERT_EQ(range.begin, end);
          end = range.end;
        }
        ASSERT_EQ(end, elements);
        ASSERT_LE(most_units - fewest_units, 1) << elements << " on " << ranks << ", tail " << tail;
      }
    }
  }
}

// As a reduce-scatter and an all-gather in place need them.
TEST(ShardPlan, HasEqualSegmentsInTheOrderOfTheRanksInAllBucketsButWhatIsLeft) {
  const int64_t unit = ShardPlan::unit();
  for (const int ranks : {1, 2, 3, 4, 5, 8, 32}) {
    for (const int64_t elements : {ranks * unit, 100 * unit, 100 * unit + 1, 777 * unit + 77}) {
      const ShardPlan plan(elements, 16 * unit * 4, ranks, 40 * unit + 3);
      const int64_t left = elements % (ranks * unit);
      EXPECT_EQ(plan.buckets().count() > 1, elements > 64 * unit);
      for (int64_t bucket = 0; bucket < plan.buckets().count(); ++bucket) {
        const TreeNode all = plan.buckets().at(bucket);
        const bool equal = bucket + 1 < plan.buckets().count() || left == 0;
        ASSERT_EQ(plan.in_equal_segments(bucket), equal) << elements << " on " << ranks;
        if (!equal) {
          EXPECT_EQ(all.size(), left);
          EXPECT_EQ(all.end, elements);
        }
        for (int rank = 0; equal && rank < ranks; ++rank) {
          const int64_t size = all.size() / ranks;
          ASSERT_EQ(plan.segment(bucket, rank),
                    (TreeNode{all.begin + rank * size, all.begin + (rank + 1) * size}));
        }
      }
    }
  }
}

TEST(GradientBuckets, AreMultiplesAndWhatIsLeftIsOneBucket) {
  const GradientBuckets buckets(103, 15, 11, 10);
  std::vector<TreeNode> all;
  for (int64_t bucket = 0; bucket < buckets.count(); ++bucket) all.push_back(buckets.at(bucket));
  EXPECT_EQ(all, (std::vector<TreeNode>{{0, 20}, {20, 40}, {40, 60}, {60, 80}, {80, 100}, {100, 103}}));
  EXPECT_EQ(buckets.index_of(99), 4);
  EXPECT_EQ(buckets.index_of(100), 5);
  EXPECT_EQ(GradientBuckets(9, 15, 11, 10).count(), 1) << "fewer than one multiple";
  const int64_t odd = 3 << 20;
  const GradientBuckets long_tail(3 * GradientBuckets::kMaxTail, odd, 2 * GradientBuckets::kMaxTail, odd);
  for (int64_t bucket = 0; bucket + 1 < long_tail.count(); ++bucket) {
    EXPECT_EQ(long_tail.at(bucket).size() % odd, 0);
    EXPECT_LE(long_tail.at(bucket).size(), GradientBuckets::kMaxTail);
  }
}

TEST(GradientBuckets, LeaveOneForWhatBackwardCompletesLast) {
  GradientBuckets buckets(100, 20, 35);
  EXPECT_EQ(buckets.count(), 5);
  std::vector<TreeNode> begun;
  const auto start = [&](int64_t begin, int64_t count) { begun.push_back({begin, begin + count}); };
  buckets.ready(36, start);
  EXPECT_EQ(begun, (std::vector<TreeNode>{{95, 100}, {75, 95}, {55, 75}}));
  buckets.ready(35, start);  // the first layer need not wait for what precedes it
  EXPECT_EQ(begun.back(), (TreeNode{35, 55}));
  buckets.ready(1, start);
  EXPECT_EQ(begun.size(), 4U);
  buckets.ready(0, start);
  EXPECT_EQ(begun.back(), (TreeNode{0, 35}));
  for (int64_t bucket = 0; bucket < buckets.count(); ++bucket) {
    EXPECT_EQ(buckets.at(bucket), begun[static_cast<size_t>(buckets.count() - 1 - bucket)]);
    EXPECT_EQ(buckets.index_of(buckets.at(bucket).begin), bucket);
    EXPECT_EQ(buckets.index_of(buckets.at(bucket).end - 1), bucket);
  }
  GradientBuckets all(10, 4, 12);
  EXPECT_EQ(all.count(), 1) << "a tail of everything";
  const GradientBuckets long_tail(3 * GradientBuckets::kMaxTail, 1 << 20, 2 * GradientBuckets::kMaxTail + 1);
  EXPECT_EQ(long_tail.at(1), (TreeNode{GradientBuckets::kMaxTail, 2 * GradientBuckets::kMaxTail}));
  EXPECT_EQ(long_tail.at(2).size(), 1);
}

}  // namespace
}  // namespace ventris
