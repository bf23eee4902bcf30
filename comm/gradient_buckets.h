#pragma once

#include <algorithm>
#include <cstdint>

#include "comm/tree_plan.h"

namespace ventris {

/// The buckets in which a flat range of gradients is summed over the ranks, from its end, as backward
/// completes it. Backward completes the first `tail` elements only at its end, all at once: they are one
/// bucket, as several would only add latencies, or if there are very many a few of kMaxTail each. The others
/// are cut every `bucket_elements` from there on. The buckets, and so the sums, do not depend on the calls.
class GradientBuckets {
 public:
  /// 256 MiB of f32, so that a message, whose bytes are an int to MPI, and the memory for it stay limited.
  static constexpr int64_t kMaxTail = int64_t{64} << 20;

  GradientBuckets(int64_t elements, int64_t bucket_elements, int64_t tail = 0)
      : elements_(elements),
        size_(std::max<int64_t>(1, bucket_elements)),
        tail_(std::clamp<int64_t>(tail, 0, elements)),
        begun_(elements) {}

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
  void start_again() { begun_ = elements_; }

  int64_t elements() const { return elements_; }
  int64_t count() const { return of_tail() + (elements_ - tail_ + size_ - 1) / size_; }
  /// The elements of bucket `index`, counted from the begin of the range.
  TreeNode at(int64_t index) const {
    if (index < of_tail()) return {index * kMaxTail, std::min((index + 1) * kMaxTail, tail_)};
    const int64_t begin = tail_ + (index - of_tail()) * size_;
    return {begin, std::min(begin + size_, elements_)};
  }
  /// The bucket of an element.
  int64_t index_of(int64_t element) const {
    return element < tail_ ? element / kMaxTail : of_tail() + (element - tail_) / size_;
  }

 private:
  int64_t of_tail() const { return (tail_ + kMaxTail - 1) / kMaxTail; }

  int64_t elements_;
  int64_t size_;
  int64_t tail_;
  int64_t begun_;
};

}  // namespace ventris
