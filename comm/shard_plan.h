// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/tree_sum.h"

namespace ventris {

/// The buckets in which a flat range of gradients is summed over the ranks, from its end, as backward
/// completes it. Backward completes the first `tail` elements only at its end, all at once: they are one
/// bucket, as several would only add latencies, or if there are very many a few of kMaxTail each. The others
/// are cut every `bucket_elements` from there on. The buckets, and so the sums, do not depend on the calls.
///
/// With `multiple` > 1 both numbers are rounded up to a multiple of it, so that every bucket can be cut into
/// equal parts; what is then left at the end of the range, fewer elements than that, is a bucket of its own.
class GradientBuckets {
 public:
  /// 256 MiB of f32, so that a message, whose bytes are an int to MPI, and the memory for it stay limited.
  static constexpr int64_t kMaxTail = int64_t{64} << 20;

  GradientBuckets(int64_t elements, int64_t bucket_elements, int64_t tail = 0, int64_t multiple = 1)
      : begun_(elements) {
    const auto rounded_up = [multiple](int64_t n) { return (n + multiple - 1) / multiple * multiple; };
    const int64_t whole = elements / multiple * multiple;
    const int64_t end_of_tail = std::min(rounded_up(std::max<int64_t>(0, tail)), whole);
    cut(0, end_of_tail, std::max(multiple, kMaxTail / multiple * multiple));
    cut(end_of_tail, whole, rounded_up(std::max<int64_t>(1, bucket_elements)));
    cut(whole, elements, multiple);
    cuts_.push_back(elements);
  }

  /// Calls start(begin, count), falling, for each bucket that lies at or after `begin` and is not begun.
  template <typename Start>
  void ready(int64_t begin, const Start& start) {
    while (begun_ > 0) {
      const int64_t bucket = at(index_of(begun_ - 1)).begin;
      if (bucket < begin) break;
      start(bucket, begun_ - bucket);
      begun_ = bucket;
    }
  }
  /// Elements at or after this one are in buckets that were begun.
  int64_t begun() const { return begun_; }
  void start_again() { begun_ = elements(); }

  int64_t elements() const { return cuts_.back(); }
  int64_t count() const { return static_cast<int64_t>(cuts_.size()) - 1; }
  /// The elements of bucket `index`, counted from the begin of the range.
  TreeNode at(int64_t index) const {
    const auto i = static_cast<size_t>(index);
    return {cuts_[i], cuts_[i + 1]};
  }
  /// The bucket of an element.
  int64_t index_of(int64_t element) const {
    return std::upper_bound(cuts_.begin(), cuts_.end(), element) - cuts_.begin() - 1;
  }

 private:
  void cut(int64_t begin, int64_t end, int64_t size) {
    for (; begin < end; begin += size) cuts_.push_back(begin);
  }

  std::vector<int64_t> cuts_;  // where buckets begin, and the end of the last
  int64_t begun_;
};

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
