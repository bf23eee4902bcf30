// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/emulation/controls.h"
#include "tests/emulation/memory.h"
#include "tests/emulation/runtime.h"
#include "tests/emulation/streams.h"

using ventris::emulation::append;
using ventris::emulation::execute_all;
using ventris::emulation::HostWait;
using ventris::emulation::result;
using ventris::emulation::state;

namespace {

bool pinned(const void* address, size_t bytes) {
  auto found = state().pinned.upper_bound(address);
  if (found == state().pinned.begin()) return false;
  --found;
  return static_cast<const char*>(address) + bytes <= static_cast<const char*>(found->first) + found->second;
}

/// Whether each end is where `kind` says.
bool ends_fit(void* to, size_t to_bytes, const void* from, size_t from_bytes, cudaMemcpyKind kind) {
  const bool to_device = ventris::emulation::in_device_memory(to, to_bytes);
  const bool from_device = ventris::emulation::in_device_memory(from, from_bytes);
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

}  // namespace

cudaError_t cudaMalloc(void** address, size_t bytes) {
  VENTRIS_LOCK();
  if (state().captures != 0) return result(cudaErrorStreamCaptureUnsupported);
  *address = ventris::emulation::allocate_device(bytes);
  return result(*address == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}
cudaError_t cudaFree(void* address) {
  VENTRIS_LOCK();
  if (address == nullptr) return result(cudaSuccess);
  if (state().captures != 0) return result(cudaErrorStreamCaptureUnsupported);
  const cudaError_t status = cudaDeviceSynchronize();
  if (!ventris::emulation::free_device(address)) return result(cudaErrorInvalidValue);
  return status;
}
cudaError_t cudaMallocHost(void** address, size_t bytes) {
  VENTRIS_LOCK();
  *address = std::malloc(std::max<size_t>(bytes, 1));
  std::memset(*address, 0xFF, bytes);
  state().pinned[*address] = bytes;
  return result(cudaSuccess);
}
cudaError_t cudaFreeHost(void* address) {
  VENTRIS_LOCK();
  const cudaError_t status = cudaDeviceSynchronize();
  if (address != nullptr && state().pinned.erase(address) == 0) return result(cudaErrorInvalidValue);
  std::free(address);
  return status;
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  VENTRIS_LOCK();
  if (width == 0 || height == 0) return result(cudaSuccess);
  if (height > 1 && (to_pitch < width || from_pitch < width)) return result(cudaErrorInvalidValue);
  const auto extent = [&](size_t pitch) { return (height - 1) * pitch + width; };
  const auto copy = [=](const char* source) {
    for (size_t r = 0; r < height; ++r)
      std::memmove(static_cast<char*>(to) + r * to_pitch, source + r * from_pitch, width);
  };
  if (!ends_fit(to, extent(to_pitch), from, extent(from_pitch), kind)) return result(cudaErrorInvalidValue);
  const auto* begin = static_cast<const char*>(from);
  const bool from_host = !ventris::emulation::in_device_memory(from, extent(from_pitch));
  const bool to_host = !ventris::emulation::in_device_memory(to, extent(to_pitch));
  const char* name = to_host ? "copy to host" : from_host ? "copy to device" : "copy on device";
  if (from_host && !pinned(from, extent(from_pitch))) {  // read before the call returns
    return append(stream, name,
                  [copy, kept = std::vector<char>(begin, begin + extent(from_pitch))] { copy(kept.data()); });
  }
  const cudaError_t status = append(stream, name, [copy, begin] { copy(begin); });
  if (status != cudaSuccess || !to_host || pinned(to, extent(to_pitch)) || stream == nullptr ||
      stream->capture)
    return status;
  const HostWait wait;
  execute_all(*stream);  // pageable memory is written before the call returns
  return result(cudaSuccess);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, stream);
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  VENTRIS_LOCK();
  if (bytes == 0) return result(cudaSuccess);
  if (!ventris::emulation::in_device_memory(to, bytes)) return result(cudaErrorInvalidValue);
  return append(stream, "memset", [to, value, bytes] { ventris::emulation::fill_device(to, value, bytes); });
}
cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
  VENTRIS_LOCK();
  if (width == 0 || height == 0) return result(cudaSuccess);
  if (!ventris::emulation::in_device_memory(to, (height - 1) * pitch + width))
    return result(cudaErrorInvalidValue);
  return append(stream, "memset", [to, pitch, value, width, height] {
    for (size_t r = 0; r < height; ++r) std::memset(static_cast<char*>(to) + r * pitch, value, width);
  });
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return cudaMemsetAsync(to, value, bytes, nullptr);
}
