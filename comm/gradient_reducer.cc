#include "comm/gradient_reducer.h"

#include <algorithm>

#include "backend/error.h"
#include "comm/communicator.h"

namespace ventris {

GradientReducer::GradientReducer(Communicator& communicator, Tensor gradients, int64_t bucket_bytes)
    : communicator_(communicator),
      gradients_(gradients),
      bucket_elements_(std::max<int64_t>(1, (bucket_bytes > 0 ? bucket_bytes : communicator.bucket_bytes()) /
                                                static_cast<int64_t>(size_of(gradients.dtype)))),
      reduced_begin_(gradients.cols) {
  VENTRIS_CHECK(gradients.rows == 1, "the gradients are one flat range, not {} rows", gradients.rows);
}

void GradientReducer::ready(int64_t begin) {
  VENTRIS_DCHECK(begin >= 0, "{} is no element", begin);
  // Bucket k is [k * bucket_elements, (k + 1) * bucket_elements): it depends on no call, so neither do the
  // sums.
  while (reduced_begin_ > 0) {
    const int64_t bucket = (reduced_begin_ - 1) / bucket_elements_ * bucket_elements_;
    if (bucket < begin) break;
    communicator_.start_all_reduce_sum(gradients_.col_range(bucket, reduced_begin_ - bucket));
    reduced_begin_ = bucket;
  }
  communicator_.progress();
}

void GradientReducer::finish() {
  VENTRIS_CHECK(reduced_begin_ == 0, "elements before {} were never ready", reduced_begin_);
  communicator_.finish_reductions();
  reduced_begin_ = gradients_.cols;
}

}  // namespace ventris
