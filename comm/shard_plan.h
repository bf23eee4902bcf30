#pragma once

#include <cstdint>
#include <vector>

#include "comm/tree_plan.h"

namespace ventris {

/// The elements of a flat range that each rank owns where every rank updates its own alone: a segment of each
/// bucket of the sums, so that all ranks add and send at the same time. Segments begin at multiples of
/// kSquaresChunk, whose sums of squares are then one rank's. The shares of two ranks differ by at most
/// one unit in each bucket: by a factor of up to 2 if there are nearly as many ranks as units in a bucket.
class ShardPlan {
 public:
  /// `bucket_bytes` of f32, as Communicator::bucket_bytes(); larger if there are more ranks than units in it.
  ShardPlan(int64_t elements, int64_t bucket_bytes, int ranks);

  /// Of f32: of the sums that leave each rank its own elements.
  int64_t bucket_bytes() const;
  /// Elements that a segment begins at a multiple of.
  static int64_t unit();
  int64_t elements() const { return elements_; }
  int ranks() const { return ranks_; }
  int64_t buckets() const { return (elements_ + bucket_ - 1) / bucket_; }
  /// The elements of a rank in a bucket; there may be none.
  TreeNode segment(int64_t bucket, int rank) const;
  /// All of a rank, in order; adjacent ones are one.
  std::vector<TreeNode> ranges_of(int rank) const;
  /// Their number.
  int64_t size_of_share(int rank) const;
  int64_t largest_share() const;

 private:
  int64_t elements_;
  int64_t bucket_;  // elements
  int ranks_;
};

}  // namespace ventris
