// SPDX-License-Identifier: Apache-2.0
#include "backend/device/profile_cuda.h"

#include <cstdio>
#include <vector>

#include "backend/cuda/check.cuh"
#include "backend/device/context_cuda.h"

// NVTX is a separate package in some installations of the toolkit.
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define VENTRIS_HAS_NVTX 1
#else
#define VENTRIS_HAS_NVTX 0
#endif

namespace ventris {

struct CudaTimeline {
  explicit CudaTimeline(cudaStream_t stream_in) : stream(stream_in) {}
  // A graph in flight records the events.
  ~CudaTimeline() {
    static_cast<void>(cudaStreamSynchronize(stream));
    for (cudaEvent_t event : events) static_cast<void>(cudaEventDestroy(event));
  }
  CudaTimeline(const CudaTimeline&) = delete;
  CudaTimeline& operator=(const CudaTimeline&) = delete;

  cudaStream_t stream;
  std::vector<cudaEvent_t> events;
  cudaError_t failure = cudaSuccess;  // the first of recording
};

CudaTimelinePtr make_timeline_cuda(CudaDevice& device) {
  return {new CudaTimeline(device.stream), [](CudaTimeline* timeline) { delete timeline; }};
}

void prepare_cuda(CudaTimeline& timeline, size_t marks) {
  timeline.events.reserve(marks);
  while (timeline.events.size() < marks) {
    cudaEvent_t event = nullptr;
    VENTRIS_CUDA_CHECK(cudaEventCreate(&event));
    timeline.events.push_back(event);
  }
}

void record_cuda(CudaTimeline& timeline, size_t mark) noexcept {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  cudaError_t status = cudaStreamIsCapturing(timeline.stream, &capture);
  if (status == cudaSuccess) {
    const bool captured = capture != cudaStreamCaptureStatusNone;
    status = cudaEventRecordWithFlags(timeline.events[mark], timeline.stream,
                                      captured ? cudaEventRecordExternal : cudaEventRecordDefault);
  }
  if (timeline.failure == cudaSuccess) timeline.failure = status;
}

double seconds_between_cuda(CudaTimeline& timeline, size_t begin, size_t end) {
  VENTRIS_CUDA_CHECK(timeline.failure);
  VENTRIS_CUDA_CHECK(cudaEventSynchronize(timeline.events[end]));
  float milliseconds = 0.0F;
  VENTRIS_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, timeline.events[begin], timeline.events[end]));
  return 1e-3 * static_cast<double>(milliseconds);
}

#if VENTRIS_HAS_NVTX

void push_range_cuda(const char* name, int index) {
  if (index < 0) {
    static_cast<void>(nvtxRangePushA(name));
    return;
  }
  char text[64];
  static_cast<void>(std::snprintf(text, sizeof(text), "%s %d", name, index));
  static_cast<void>(nvtxRangePushA(text));
}

void pop_range_cuda() noexcept {
  static_cast<void>(nvtxRangePop());
}

#else

void push_range_cuda(const char*, int) {}
void pop_range_cuda() noexcept {}

#endif

}  // namespace ventris
