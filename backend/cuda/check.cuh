// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "backend/device/error.h"

namespace ventris::cuda {

/// Throws Error for a failed CUDA call: kUnavailable if the device or its memory is the cause, otherwise
/// kInternal. `call` is its source text.
inline void check(cudaError_t status, const char* call, const char* file, int line) {
  if (status == cudaSuccess) [[likely]]
    return;
  const bool device = status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver ||
                      status == cudaErrorMemoryAllocation || status == cudaErrorDevicesUnavailable ||
                      status == cudaErrorNoKernelImageForDevice;
  fail(device ? ExitCode::kUnavailable : ExitCode::kInternal, "{}:{}: {} failed: {} ({})", file, line, call,
       cudaGetErrorString(status), cudaGetErrorName(status));
}

}  // namespace ventris::cuda

/// Wraps every CUDA call: a failure is an Error that names the call, the place and CUDA's reason.
#define VENTRIS_CUDA_CHECK(call) ::ventris::cuda::check((call), #call, __FILE__, __LINE__)
