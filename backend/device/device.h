// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "backend/device/arena.h"

namespace ventris {

/// The CUDA devices that this process can use; 0 if the program was built without CUDA.
int cuda_device_count();
/// Why --device cuda is not available, for the user (built without CUDA, no device, driver too old,
/// no kernels for the architecture of a device), or "" if it is available. `index` is the device.
std::string cuda_unavailable_reason(int index = 0);
/// One line about the CUDA side for --version, e.g. "yes, CUDA 13.0, architectures 80, 90a, PTX 90", or
/// "no".
std::string cuda_build();
/// One line about a device for the log, e.g. "NVIDIA H200, 132 multiprocessors, 139.8 GiB". Requires that it
/// is available.
std::string cuda_device_name(int index);
/// The total memory of a device in bytes. Requires that it is available.
int64_t cuda_device_memory(int index);
/// The memory of the calling thread's device in bytes: what all programs use of it, and its total. Requires
/// that it is available.
struct DeviceMemory {
  int64_t used;
  int64_t total;
};
DeviceMemory cuda_memory();
/// The CUDA version that the driver supports, e.g. "13.0"; "" without a driver or in a program without CUDA.
std::string cuda_driver();
/// An identity of the device that is unique among all hosts of a job (host and bus address or UUID).
std::string cuda_device_identity(int index);

}  // namespace ventris
