#pragma once

#include <algorithm>
#include <cstdint>

namespace ventris {

/// The buckets in which a flat range of gradients is summed over the ranks, from its end, as backward
/// completes it. Bucket k is the elements [k * size, (k + 1) * size), whatever the calls, and so are the
/// sums.
class GradientBuckets {
 public:
  GradientBuckets(int64_t elements, int64_t bucket_elements)
      : elements_(elements), size_(std::max<int64_t>(1, bucket_elements)), begun_(elements) {}

  /// Calls start(begin, count), falling, for each bucket that lies at or after `begin` and is not begun.
  template <typename Start>
  void ready(int64_t begin, const Start& start) {
    while (begun_ > 0) {
      const int64_t bucket = (begun_ - 1) / size_ * size_;
      if (bucket < begin) break;
      start(bucket, begun_ - bucket);
      begun_ = bucket;
    }
  }
  /// Elements at or after this one are in buckets that were begun.
  int64_t begun() const { return begun_; }
  void start_again() { begun_ = elements_; }

  /// Elements of a bucket; the last one may have fewer.
  int64_t size() const { return size_; }
  int64_t count() const { return (elements_ + size_ - 1) / size_; }

 private:
  int64_t elements_;
  int64_t size_;
  int64_t begun_;
};

}  // namespace ventris
