// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

/// Guarded device memory (the promises stand in runtime.h).
namespace ventris::emulation {

/// Null where the device is full.
void* allocate_device(size_t bytes);
/// False if `address` is none that allocate_device gave.
bool free_device(void* address);
/// True if [address, address + bytes) lies in one allocation.
bool in_device_memory(const void* address, size_t bytes);
size_t device_bytes_used();
/// memset of device memory. Whole pages of zeros are given back to the system: protecting pages that nothing
/// has touched costs nothing.
void fill_device(void* address, int value, size_t bytes);

/// The first write past an allocation, in words, or nothing.
std::string overwritten();

/// While one lives, device memory can be touched.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

}  // namespace ventris::emulation
