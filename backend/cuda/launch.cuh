// SPDX-License-Identifier: Apache-2.0
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
  dim3 grid = {};    // launch_resident chooses it
  dim3 block;
  size_t shared_bytes = 0;  // dynamic shared memory of a block
};

/// Blocks of `unit` that cover `count`.
constexpr unsigned blocks_for(int64_t count, int64_t unit) {
  return static_cast<unsigned>((count + unit - 1) / unit);
}

/// More shared memory than a kernel declares beside its dynamic one; with it, up to 48 KiB need no permission
/// and more than a block can have is refused.
inline constexpr size_t kMaxDeclared = 16 << 10;

/// Permits the kernel blocks with that much dynamic shared memory.
template <typename... Parameters>
cudaError_t permit_shared(void (*kernel)(Parameters...), size_t bytes) {
  constexpr size_t kWithoutAsking = (48 << 10) - kMaxDeclared;
  return bytes <= kWithoutAsking ? cudaSuccess
                                 : cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                        static_cast<int>(bytes));
}

/// Launches a kernel. All kernels are launched here, so that one place checks them and the tests can run them
/// without a GPU (tests/emulation). A grid without blocks is not launched. Throws Error naming the kernel,
/// its shape and CUDA's reason.
template <typename... Parameters, typename... Arguments>
void launch(const Shape& shape, cudaStream_t stream, void (*kernel)(Parameters...),
            Arguments&&... arguments) {
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return;
  cudaError_t status = permit_shared(kernel, shape.shared_bytes);
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

/// The device's multiprocessors, and how many blocks of a kernel run on one at a time: 0 before the first
/// launch_resident. A kernel is always launched with the same block and shared memory.
struct Residence {
  int processors;
  int& blocks;
};
Residence residence_of(Context& context, const void* kernel);

/// Launches a kernel whose blocks share `turns` pieces of work out among themselves, with as many blocks as
/// run at a time, but at most one for each piece: a later block would find nothing left to do.
template <typename... Parameters, typename... Arguments>
void launch_resident(Context& context, Shape shape, int64_t turns, void (*kernel)(Parameters...),
                     Arguments&&... arguments) {
  const auto* address = reinterpret_cast<const void*>(kernel);
  const auto [processors, blocks] = residence_of(context, address);
  if (blocks == 0) {
    VENTRIS_CUDA_CHECK(permit_shared(kernel, shape.shared_bytes));
    VENTRIS_CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &blocks, address, static_cast<int>(shape.block.x), shape.shared_bytes));
    if (blocks == 0) blocks = 1;  // the launch says what is wrong
  }
  const int64_t most = int64_t{processors} * blocks;
  shape.grid = static_cast<unsigned>(turns < most ? turns : most);
  launch(shape, stream_of(context), kernel, std::forward<Arguments>(arguments)...);
}

}  // namespace ventris::cuda
