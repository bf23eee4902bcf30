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

/// A matrix on the device, `gap` elements between its rows. Without contents it holds NaN.
class DeviceMatrix {
 public:
  DeviceMatrix(int64_t rows, int64_t cols, DType dtype, int64_t gap = 0)
      : view_{nullptr, rows, cols, cols + gap, dtype} {
    VENTRIS_CUDA_CHECK(cudaMalloc(&view_.data, bytes()));
  }
  explicit DeviceMatrix(const Buffer& host, int64_t gap = 0)
      : DeviceMatrix(host.view().rows, host.view().cols, host.view().dtype, gap) {
    const size_t row = static_cast<size_t>(view_.cols) * size_of(view_.dtype);
    if (host.size() != 0) {
      VENTRIS_CUDA_CHECK(cudaMemcpy2DAsync(view_.data, pitch(), host.view().data, row, row,
                                           static_cast<size_t>(view_.rows), cudaMemcpyHostToDevice, nullptr));
      finish_copies();
    }
  }
  ~DeviceMatrix() { static_cast<void>(cudaFree(view_.data)); }
  DeviceMatrix(const DeviceMatrix&) = delete;
  DeviceMatrix& operator=(const DeviceMatrix&) = delete;

  Tensor view() const { return view_; }
  /// After the work of the stream.
  Buffer get(cudaStream_t stream) const {
    Buffer host(view_.rows, view_.cols, view_.dtype);
    VENTRIS_CUDA_CHECK(cudaStreamSynchronize(stream));
    const size_t row = static_cast<size_t>(view_.cols) * size_of(view_.dtype);
    if (host.size() != 0) {
      VENTRIS_CUDA_CHECK(cudaMemcpy2DAsync(host.view().data, row, view_.data, pitch(), row,
                                           static_cast<size_t>(view_.rows), cudaMemcpyDeviceToHost, nullptr));
    }
    return host;
  }

 private:
  size_t bytes() const {
    const int64_t elements = view_.rows == 0 ? 0 : (view_.rows - 1) * view_.stride + view_.cols;
    return static_cast<size_t>(elements) * size_of(view_.dtype);
  }
  size_t pitch() const { return static_cast<size_t>(view_.stride) * size_of(view_.dtype); }

  Tensor view_;
};

/// A context on the emulated device, and one on the CPU to compare with.
Context& cuda_context();
Context& cpu_context();
inline cudaStream_t cuda_stream() {
  return cuda::stream_of(cuda_context());
}

/// What the CUDA operation left on the device is what the CPU computed, to the tolerance of `dtype`.
inline void expect_matches(const std::string& name, const DeviceMatrix& got, const Buffer& expected,
                           DType dtype) {
  expect_close(name, got.get(cuda_stream()), to_doubles(expected), tolerance_of(dtype));
}
inline void expect_same(const std::string& name, const DeviceMatrix& a, const DeviceMatrix& b) {
  expect_same_bits(name, a.get(cuda_stream()), b.get(cuda_stream()));
}

}  // namespace ventris::testing
