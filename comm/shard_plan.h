// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "comm/gradient_buckets.h"
#include "comm/tree_plan.h"

namespace ventris {

/// The elements of a flat range that each rank owns where every rank updates its own alone: a segment of each
/// bucket of the sums, so that all ranks add and send at the same time. The segments of a bucket are equal
/// and in the order of the ranks, as a reduce-scatter and an all-gather take them. Only in the last bucket,
/// the elements that are left (GradientBuckets), the first ranks own a unit each, so that the numbers of
/// units of any two ranks differ by at most one. Segments begin at multiples of kSquaresChunk, whose sums of
/// squares are then one rank's.
class ShardPlan {
 public:
  /// `bucket_bytes` of f32, as Communicator::bucket_bytes(), rounded up to a unit or several for each rank.
  /// `tail` as in GradientBuckets.
  ShardPlan(int64_t elements, int64_t bucket_bytes, int ranks, int64_t tail = 0);

  /// Elements that a segment begins at a multiple of.
  static int64_t unit();
  int64_t elements() const { return buckets_.elements(); }
  int ranks() const { return ranks_; }
  /// Of the sums that leave each rank its own elements.
  const GradientBuckets& buckets() const { return buckets_; }
  /// The elements of a rank in a bucket; there may be none.
  TreeNode segment(int64_t bucket, int rank) const;
  /// Whether every rank owns an equal segment of the bucket.
  bool in_equal_segments(int64_t bucket) const { return buckets_.at(bucket).size() % (ranks_ * unit()) == 0; }
  /// All of a rank, in order; adjacent ones are one.
  std::vector<TreeNode> ranges_of(int rank) const;
  /// Their number.
  int64_t size_of_share(int rank) const;
  int64_t largest_share() const;

 private:
  GradientBuckets buckets_;
  int ranks_;
};

}  // namespace ventris
