#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "backend/cuda/check.cuh"

namespace ventris {
class Context;
}

namespace ventris::cuda {

/// The stream of the operations of a context on CUDA.
cudaStream_t stream_of(Context& context);

/// Name and shape of a kernel launch.
struct Shape {
  const char* name;  // of the kernel, for messages
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;  // dynamic shared memory of a block
};

/// Blocks of `unit` that cover `count`.
constexpr unsigned blocks_for(int64_t count, int64_t unit) {
  return static_cast<unsigned>((count + unit - 1) / unit);
}

/// Launches a kernel. All kernels are launched here, so that one place checks them and the tests can run them
/// without a GPU (tests/emulation). A grid without blocks is not launched. Throws Error naming the kernel,
/// its shape and CUDA's reason.
template <typename... Parameters, typename... Arguments>
void launch(const Shape& shape, cudaStream_t stream, void (*kernel)(Parameters...),
            Arguments&&... arguments) {
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return;
  constexpr size_t kWithoutAsking = 48 << 10;  // more dynamic shared memory must be requested
  cudaError_t status = cudaSuccess;
  if (shape.shared_bytes > kWithoutAsking) {
    status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(shape.shared_bytes));
  }
  if (status == cudaSuccess) {
    cudaLaunchConfig_t config = {};
    config.gridDim = shape.grid;
    config.blockDim = shape.block;
    config.dynamicSmemBytes = shape.shared_bytes;
    config.stream = stream;
    status = cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...);
  }
  if (status != cudaSuccess) [[unlikely]] {
    fail(status == cudaErrorNoKernelImageForDevice ? ExitCode::kUnavailable : ExitCode::kInternal,
         "kernel {}: launch of {} x {} x {} blocks of {} x {} x {} threads with {} bytes "
         "of shared memory failed: {} ({})",
         shape.name, shape.grid.x, shape.grid.y, shape.grid.z, shape.block.x, shape.block.y, shape.block.z,
         shape.shared_bytes, cudaGetErrorString(status), cudaGetErrorName(status));
  }
}

}  // namespace ventris::cuda
