// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <vector>

#include "backend/cuda/launch.cuh"
#include "tests/support/compare.h"

namespace ventris::testing {

/// What the default stream was given is done: copies from pageable memory and memsets may return before, and
/// the streams of contexts do not wait for the default one.
inline void finish_copies() {
  VENTRIS_CUDA_CHECK(cudaStreamSynchronize(nullptr));
}

/// Device memory with the contents of a vector.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& values) : count_(values.size()) {
    VENTRIS_CUDA_CHECK(cudaMalloc(&data_, count_ * sizeof(T)));
    if (count_ == 0) return;
    VENTRIS_CUDA_CHECK(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
    finish_copies();
  }
  ~DeviceArray() { static_cast<void>(cudaFree(data_)); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return data_; }
  /// After the work of the stream.
  std::vector<T> get(cudaStream_t stream) const {
    std::vector<T> values(count_);
    VENTRIS_CUDA_CHECK(cudaStreamSynchronize(stream));
    if (count_ != 0)
      VENTRIS_CUDA_CHECK(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  T* data_ = nullptr;
  size_t count_;
};

/// A context on the emulated device, and one on the CPU to compare with.
Context& cuda_context();
Context& cpu_context();
inline cudaStream_t cuda_stream() {
  return cuda::stream_of(cuda_context());
}

}  // namespace ventris::testing
