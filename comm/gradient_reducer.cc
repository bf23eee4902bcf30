// SPDX-License-Identifier: Apache-2.0
#include "comm/gradient_reducer.h"

#include "backend/device/context.h"
#include "backend/device/error.h"
#include "backend/ops/cast.h"
#include "comm/communicator.h"

namespace ventris {
namespace {

int64_t bucket_elements(const Communicator& communicator, int64_t bucket_bytes, DType dtype) {
  return (bucket_bytes > 0 ? bucket_bytes : communicator.bucket_bytes()) /
         static_cast<int64_t>(size_of(dtype));
}

}  // namespace

GradientReducer::GradientReducer(Context& context, Communicator& communicator, Tensor gradients, DType dtype,
                                 int64_t bucket_bytes, int64_t tail)
    : context_(context),
      communicator_(communicator),
      gradients_(gradients),
      rounded_(gradients),
      buckets_(gradients.cols,
               bucket_elements(communicator, bucket_bytes, communicator.size() > 1 ? dtype : gradients.dtype),
               tail) {
  VENTRIS_CHECK(gradients.rows == 1, "the gradients are one flat range, not {} rows", gradients.rows);
  if (dtype != gradients.dtype && communicator.size() > 1) {
    VENTRIS_CHECK(dtype == DType::kBF16, "gradients of {} are not summed as {}", name_of(gradients.dtype),
                  name_of(dtype));
    constexpr size_t kAlignment = 128;  // of pieces of an arena
    memory_.emplace(context.device(), static_cast<size_t>(gradients.cols) * size_of(dtype) + kAlignment,
                    "gradients in the dtype of --gradient-dtype");
    rounded_ = memory_->allocate(1, gradients.cols, dtype);
  }
}

GradientReducer::GradientReducer(Context& context, Communicator& communicator, Tensor gradients,
                                 const ShardPlan& owners)
    : context_(context),
      communicator_(communicator),
      gradients_(gradients),
      rounded_(gradients),
      buckets_(owners.buckets()),
      owners_(owners) {
  VENTRIS_CHECK(
      gradients.rows == 1 && gradients.cols == owners.elements() && owners.ranks() == communicator.size(),
      "{} gradients on {} ranks, but owners of {} on {}", gradients.size(), communicator.size(),
      owners.elements(), owners.ranks());
}

void GradientReducer::ready(int64_t begin) {
  VENTRIS_DCHECK(begin >= 0, "{} is not an element", begin);
  buckets_.ready(begin, [this](int64_t bucket, int64_t count) {
    const Tensor range = rounded_.col_range(bucket, count);
    if (memory_) cast(context_, {.source = gradients_.col_range(bucket, count), .destination = range});
    if (owners_ && owners_->in_equal_segments(buckets_.index_of(bucket))) {
      communicator_.start_reduce_scatter_sum(range);
    } else {
      communicator_.start_all_reduce_sum(range);
    }
  });
  communicator_.progress();
}

void GradientReducer::finish() {
  VENTRIS_CHECK(buckets_.begun() == 0, "elements before {} were never ready", buckets_.begun());
  communicator_.finish_reductions();
  if (memory_) cast(context_, {.source = rounded_, .destination = gradients_});
  buckets_.start_again();
}

}  // namespace ventris
