#include "comm/gradient_reducer.h"

#include <algorithm>

#include "backend/cast.h"
#include "backend/context.h"
#include "backend/error.h"
#include "comm/communicator.h"

namespace ventris {

GradientReducer::GradientReducer(Context& context, Communicator& communicator, Tensor gradients, DType dtype,
                                 int64_t bucket_bytes)
    : context_(context),
      communicator_(communicator),
      gradients_(gradients),
      rounded_(gradients),
      reduced_begin_(gradients.cols) {
  VENTRIS_CHECK(gradients.rows == 1, "the gradients are one flat range, not {} rows", gradients.rows);
  if (dtype != gradients.dtype && communicator.size() > 1) {
    VENTRIS_CHECK(dtype == DType::kBF16, "gradients of {} are not summed as {}", name_of(gradients.dtype),
                  name_of(dtype));
    constexpr size_t kAlignment = 128;  // of pieces of an arena
    memory_.emplace(context.device(), static_cast<size_t>(gradients.cols) * size_of(dtype) + kAlignment,
                    "gradients in the dtype of --gradient-dtype");
    rounded_ = memory_->allocate(1, gradients.cols, dtype);
  }
  const int64_t bytes = bucket_bytes > 0 ? bucket_bytes : communicator.bucket_bytes();
  bucket_elements_ = std::max<int64_t>(1, bytes / static_cast<int64_t>(size_of(rounded_.dtype)));
}

void GradientReducer::ready(int64_t begin) {
  VENTRIS_DCHECK(begin >= 0, "{} is not an element", begin);
  // Bucket k is [k * bucket_elements, (k + 1) * bucket_elements): independent of the calls, and so are the
  // sums.
  while (reduced_begin_ > 0) {
    const int64_t bucket = (reduced_begin_ - 1) / bucket_elements_ * bucket_elements_;
    if (bucket < begin) break;
    const int64_t count = reduced_begin_ - bucket;
    const Tensor range = rounded_.col_range(bucket, count);
    if (memory_) cast(context_, {.source = gradients_.col_range(bucket, count), .destination = range});
    communicator_.start_all_reduce_sum(range);
    reduced_begin_ = bucket;
  }
  communicator_.progress();
}

void GradientReducer::finish() {
  VENTRIS_CHECK(reduced_begin_ == 0, "elements before {} were never ready", reduced_begin_);
  communicator_.finish_reductions();
  if (memory_) cast(context_, {.source = rounded_, .destination = gradients_});
  reduced_begin_ = gradients_.cols;
}

}  // namespace ventris
