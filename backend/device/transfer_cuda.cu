// SPDX-License-Identifier: Apache-2.0
#include "backend/device/transfer_cuda.h"

#include <cstring>

#include "backend/cuda/launch.cuh"

namespace ventris {

using cuda::stream_of;

void copy_to_device_cuda(Context& context, void* device, const void* host, size_t bytes) {
  VENTRIS_CUDA_CHECK(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_of(context)));
  VENTRIS_CUDA_CHECK(cudaStreamSynchronize(stream_of(context)));
}

void copy_to_host_cuda(Context& context, void* host, const void* device, size_t bytes) {
  VENTRIS_CUDA_CHECK(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream_of(context)));
  VENTRIS_CUDA_CHECK(cudaStreamSynchronize(stream_of(context)));
}

void copy_rows_to_host_cuda(Context& context, void* host, const ConstTensor& device) {
  const size_t row = static_cast<size_t>(device.cols) * size_of(device.dtype);
  const size_t pitch = device.rows <= 1 ? row : static_cast<size_t>(device.stride) * size_of(device.dtype);
  VENTRIS_CUDA_CHECK(cudaMemcpy2DAsync(host, row, device.data, pitch, row, static_cast<size_t>(device.rows),
                                       cudaMemcpyDeviceToHost, stream_of(context)));
  VENTRIS_CUDA_CHECK(cudaStreamSynchronize(stream_of(context)));
}

void synchronize_cuda(Context& context) {
  VENTRIS_CUDA_CHECK(cudaStreamSynchronize(stream_of(context)));
}

char* allocate_pinned_cuda(size_t bytes) {
  void* memory = nullptr;
  const cudaError_t status = cudaMallocHost(&memory, bytes);
  if (status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    fail(ExitCode::kUnavailable,
         "cannot allocate {} bytes of page-locked host memory: {} ({}); raise the limit of locked memory "
         "(ulimit -l), or use fewer tokens per micro-batch (--micro-batch-tokens) or a smaller model",
         bytes, cudaGetErrorString(status), cudaGetErrorName(status));
  }
  std::memset(memory, 0, bytes);
  return static_cast<char*>(memory);
}

void free_pinned_cuda(char* memory) noexcept {
  if (memory != nullptr) static_cast<void>(cudaFreeHost(memory));
}

void* make_event_cuda() {
  cudaEvent_t event = nullptr;
  VENTRIS_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}

void free_event_cuda(void* event) noexcept {
  if (event != nullptr) static_cast<void>(cudaEventDestroy(static_cast<cudaEvent_t>(event)));
}

void send_cuda(Context& context, void* device, const void* pinned, size_t bytes, void* event) {
  VENTRIS_CUDA_CHECK(cudaMemcpyAsync(device, pinned, bytes, cudaMemcpyHostToDevice, stream_of(context)));
  VENTRIS_CUDA_CHECK(cudaEventRecord(static_cast<cudaEvent_t>(event), stream_of(context)));
}

void receive_cuda(Context& context, void* pinned, const void* device, size_t bytes, void* event) {
  VENTRIS_CUDA_CHECK(cudaMemcpyAsync(pinned, device, bytes, cudaMemcpyDeviceToHost, stream_of(context)));
  VENTRIS_CUDA_CHECK(cudaEventRecord(static_cast<cudaEvent_t>(event), stream_of(context)));
}

void wait_for_event_cuda(void* event) {
  VENTRIS_CUDA_CHECK(cudaEventSynchronize(static_cast<cudaEvent_t>(event)));
}

}  // namespace ventris
