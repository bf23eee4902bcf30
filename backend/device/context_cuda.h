// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <unordered_map>

namespace ventris {

class GemmPlans;  // backend/cuda/gemm_plans.cuh
namespace cuda {
class PendingColumnSums;  // backend/cuda/column_sums.cuh
}

/// The CUDA side of a context.
struct CudaDevice {
  static constexpr size_t kWorkspaceBytes = size_t{32} << 20;  // recommended by cuBLAS for Hopper

  int index = 0;
  int processors = 0;             // multiprocessors
  size_t shared_bytes = 0;        // of a multiprocessor: shared memory
  cudaStream_t stream = nullptr;  // does not wait for the default stream
  cublasLtHandle_t blas = nullptr;
  char* workspace = nullptr;  // of cuBLASLt; its address never changes, as captured graphs hold it
  std::unique_ptr<GemmPlans> gemm_plans;
  std::unique_ptr<cuda::PendingColumnSums> pending_sums;
  std::unordered_map<const void*, int> resident_blocks;  // of a multiprocessor, by kernel

  CudaDevice();
  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;
};

namespace cuda {

/// Throws Error for a call of cuBLASLt that did not succeed. `call` is its source text.
void check_blas(cublasStatus_t status, const char* call, const char* file, int line);

}  // namespace cuda
}  // namespace ventris

#define VENTRIS_BLAS_CHECK(call) ::ventris::cuda::check_blas((call), #call, __FILE__, __LINE__)
