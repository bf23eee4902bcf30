// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "backend/device/arena.h"
#include "backend/device/tensor.h"
#include "comm/shard_plan.h"

namespace ventris {

class Communicator;
class Context;

/// Sums the flat gradient buffer over the ranks during backward: backward completes a growing suffix, and the
/// reduction of a bucket starts when the bucket is complete. Buckets (comm/shard_plan.h) are ranges
/// fixed by the size of the buffer, `tail` and `bucket_bytes`, or Communicator::bucket_bytes() if that is 0.
/// The gradients are in the memory in which `communicator` sums: host or device (make_device_communicator).
/// If `dtype` (bf16) is narrower than the gradients and there are several ranks, a bucket is rounded to it
/// before its reduction, which moves half the bytes, and all sums are widened at the end. Each rank's
/// gradient and each partial sum is rounded to 8 significant bits (relative error at most 2^-9); Adam and the
/// norm take f32.
class GradientReducer {
 public:
  /// The references must outlive the object.
  GradientReducer(Context& context, Communicator& communicator, Tensor gradients, DType dtype,
                  int64_t bucket_bytes = 0, int64_t tail = 0);
  /// The same in f32, but each rank gets only the sums of the elements that it owns; the others are then
  /// unspecified.
  GradientReducer(Context& context, Communicator& communicator, Tensor gradients, const ShardPlan& owners);

  /// Elements at or after `begin` are complete on this rank. Falling values within a step; 0 completes all.
  void ready(int64_t begin);
  /// Waits for all buckets of this step; on the device, work enqueued later waits. Requires that ready(0) was
  /// called; then the next step may begin.
  void finish();

 private:
  Context& context_;
  Communicator& communicator_;
  Tensor gradients_;
  std::optional<Arena> memory_;  // of rounded_, if the sums have another dtype
  Tensor rounded_;               // like gradients_, the summed values
  GradientBuckets buckets_;
  std::optional<ShardPlan> owners_;  // none: all ranks get all sums
};

}  // namespace ventris
