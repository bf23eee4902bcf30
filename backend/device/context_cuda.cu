// SPDX-License-Identifier: Apache-2.0
#include "backend/device/context_cuda.h"

#include "backend/cuda/column_sums.cuh"
#include "backend/cuda/gemm_plans.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/device/device_cuda.h"

namespace ventris {

CudaDevice::CudaDevice() = default;

CudaDevice::~CudaDevice() {
  if (stream != nullptr) static_cast<void>(cudaStreamSynchronize(stream));
  gemm_plans.reset();
  pending_sums.reset();
  free_cuda(workspace);
  if (blas != nullptr) static_cast<void>(cublasLtDestroy(blas));
  if (stream != nullptr) static_cast<void>(cudaStreamDestroy(stream));
}

CudaDevicePtr make_cuda_device(int index) {
  VENTRIS_CUDA_CHECK(cudaSetDevice(index));
  CudaDevicePtr device(new CudaDevice, [](CudaDevice* d) { delete d; });
  device->index = index;
  const auto attribute = [index](cudaDeviceAttr which) {
    int value = 0;
    VENTRIS_CUDA_CHECK(cudaDeviceGetAttribute(&value, which, index));
    return value;
  };
  device->processors = attribute(cudaDevAttrMultiProcessorCount);
  device->shared_bytes = static_cast<size_t>(attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor));
  VENTRIS_CUDA_CHECK(cudaStreamCreateWithFlags(&device->stream, cudaStreamNonBlocking));
  VENTRIS_BLAS_CHECK(cublasLtCreate(&device->blas));
  device->workspace = allocate_cuda(CudaDevice::kWorkspaceBytes, "the workspace of cuBLASLt");
  device->gemm_plans = std::make_unique<GemmPlans>(*device);
  device->pending_sums = std::make_unique<cuda::PendingColumnSums>(device->stream);
  return device;
}

bool capturing(const CudaDevice& device) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  VENTRIS_CUDA_CHECK(cudaStreamIsCapturing(device.stream, &status));
  return status != cudaStreamCaptureStatusNone;
}

char* allocate_cuda(size_t bytes, const char* purpose) {
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, bytes);
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // it is reported here
    size_t free = 0;
    size_t total = 0;
    VENTRIS_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    constexpr double kMiB = 1 << 20;
    fail(ExitCode::kUnavailable,
         "cannot allocate {} bytes ({:.1f} MiB) on device cuda for {}: {:.1f} of its {:.1f} MiB are free; "
         "use fewer tokens per micro-batch (--micro-batch-tokens) or a smaller model, "
         "or end other programs on the device",
         bytes, static_cast<double>(bytes) / kMiB, purpose, static_cast<double>(free) / kMiB,
         static_cast<double>(total) / kMiB);
  }
  VENTRIS_CUDA_CHECK(status);
  VENTRIS_CUDA_CHECK(cudaMemset(memory, 0, bytes));
  VENTRIS_CUDA_CHECK(cudaStreamSynchronize(nullptr));  // streams of contexts do not wait for the default one
  return static_cast<char*>(memory);
}

void free_cuda(char* memory) noexcept {
  if (memory != nullptr) static_cast<void>(cudaFree(memory));
}

namespace cuda {

cudaStream_t stream_of(Context& context) {
  return context.cuda().stream;
}

Residence residence_of(Context& context, const void* kernel) {
  return {context.cuda().processors, context.cuda().resident_blocks[kernel]};
}

void check_blas(cublasStatus_t status, const char* call, const char* file, int line) {
  if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  const bool device = status == CUBLAS_STATUS_NOT_INITIALIZED || status == CUBLAS_STATUS_ALLOC_FAILED ||
                      status == CUBLAS_STATUS_ARCH_MISMATCH;
  fail(device ? ExitCode::kUnavailable : ExitCode::kInternal, "{}:{}: {} failed: {} ({})", file, line, call,
       cublasLtGetStatusString(status), cublasLtGetStatusName(status));
}

}  // namespace cuda
}  // namespace ventris
