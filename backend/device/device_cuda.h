// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "backend/device/context.h"
#include "backend/device/device.h"

/// The CUDA side of contexts, arenas and queries, without CUDA's headers.
namespace ventris {

/// Makes `index` the device of the calling thread, with a stream, a handle of cuBLASLt and its workspace
/// there.
CudaDevicePtr make_cuda_device(int index);
/// Whether the stream is captured into a graph.
bool capturing(const CudaDevice& device);

/// Zeroed memory of the calling thread's device. Throws Error(kUnavailable) naming the requested size, the
/// purpose and the available memory.
char* allocate_cuda(size_t bytes, const char* purpose);
void free_cuda(char* memory) noexcept;

// As those of backend/device/device.h.
int device_count_cuda();
std::string unavailable_reason_cuda(int index);
std::string build_cuda();
std::string device_name_cuda(int index);
std::string device_identity_cuda(int index);
int64_t device_memory_cuda(int index);
DeviceMemory memory_cuda();
std::string driver_cuda();

}  // namespace ventris
