#pragma once

#include <cstdint>

#include "backend/tensor.h"

namespace ventris {

class Communicator;

/// Sums the flat gradient buffer over the ranks while backward goes on: backward completes a growing suffix,
/// and whenever a bucket of it is complete its reduction starts. Buckets are ranges fixed by the size of the
/// buffer and `bucket_bytes`, or by Communicator::bucket_bytes() if that is 0. The gradients lie where
/// `communicator` sums: on the host, or on the device (make_device_communicator).
class GradientReducer {
 public:
  GradientReducer(Communicator& communicator, Tensor gradients, int64_t bucket_bytes = 0);

  /// Elements at or after `begin` are complete on this rank. Falling values within a step; 0 completes all.
  void ready(int64_t begin);
  /// Waits for all buckets of this step; on the device, what the context is given later waits. Requires that
  /// ready(0) was called; then the next step may begin.
  void finish();

 private:
  Communicator& communicator_;
  Tensor gradients_;
  int64_t bucket_elements_;
  int64_t reduced_begin_;  // elements at or after this one are under reduction
};

}  // namespace ventris
