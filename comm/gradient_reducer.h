#pragma once

#include <cstdint>
#include <optional>

#include "backend/arena.h"
#include "backend/tensor.h"

namespace ventris {

class Communicator;
class Context;

/// Sums the flat gradient buffer over the ranks while backward goes on: backward completes a growing suffix,
/// and whenever a bucket of it is complete its reduction starts. Buckets are ranges fixed by the size of the
/// buffer and `bucket_bytes`, or by Communicator::bucket_bytes() if that is 0. The gradients lie where
/// `communicator` sums: on the host, or on the device (make_device_communicator).
///
/// Where `dtype`, bf16, is narrower than the gradients and there are several ranks, a bucket is rounded to it
/// before its reduction, which so moves half the bytes, and all sums are widened at the end. Each rank's
/// gradient and each partial sum is rounded to 8 significant bits (relative error at most 2^-9); Adam and the
/// norm take f32.
class GradientReducer {
 public:
  /// The references outlive the object.
  GradientReducer(Context& context, Communicator& communicator, Tensor gradients, DType dtype,
                  int64_t bucket_bytes = 0);

  /// Elements at or after `begin` are complete on this rank. Falling values within a step; 0 completes all.
  void ready(int64_t begin);
  /// Waits for all buckets of this step; on the device, what the context is given later waits. Requires that
  /// ready(0) was called; then the next step may begin.
  void finish();

 private:
  Context& context_;
  Communicator& communicator_;
  Tensor gradients_;
  std::optional<Arena> memory_;  // of rounded_, where the sums are of another dtype
  Tensor rounded_;               // like gradients_, what is summed
  int64_t bucket_elements_;
  int64_t reduced_begin_;  // elements at or after this one are under reduction
};

}  // namespace ventris
