// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <string>

#include "tests/emulation/controls.h"
#include "tests/emulation/memory.h"
#include "tests/emulation/runtime.h"

// The machine, its devices and the names of errors.

namespace {

using ventris::emulation::Machine;
using ventris::emulation::machine;
using ventris::emulation::result;

thread_local int current_device = 0;

}  // namespace

namespace ventris::emulation {

Machine& machine() {
  static Machine one = [] {
    Machine found;
    if (const char* devices = std::getenv("VENTRIS_EMULATED_DEVICES")) found.devices = std::atoi(devices);
    if (const char* driver = std::getenv("VENTRIS_EMULATED_DRIVER")) found.driver = std::atoi(driver);
    if (const char* kib = std::getenv("VENTRIS_EMULATED_SHARED_KIB"))
      found.shared_bytes = static_cast<size_t>(std::atoi(kib)) << 10;
    if (const char* gib = std::getenv("VENTRIS_EMULATED_GIB"))
      found.memory_bytes = static_cast<size_t>(std::atoi(gib)) << 30;
    if (const char* time = std::getenv("VENTRIS_EMULATED_WORK_US")) found.work_us = std::atoi(time);
    found.kernel_image = std::getenv("VENTRIS_EMULATED_NO_KERNELS") == nullptr;
    if (const char* kernels = std::getenv("VENTRIS_EMULATED_IDLE_KERNELS")) {
      std::istringstream names(kernels);
      for (std::string name; std::getline(names, name, ',');) found.idle_kernels.insert(name);
    }
    return found;
  }();
  return one;
}

cudaError_t function_attributes(cudaFuncAttributes* attributes) {
  attributes->maxThreadsPerBlock = 1024;
  return result(machine().kernel_image ? cudaSuccess : cudaErrorNoKernelImageForDevice);
}

}  // namespace ventris::emulation

const char* cudaGetErrorName(cudaError_t status) {
#define VENTRIS_NAME(name) \
  { name, #name }
  static const std::map<cudaError_t, const char*> names = {
      VENTRIS_NAME(cudaSuccess),
      VENTRIS_NAME(cudaErrorInvalidValue),
      VENTRIS_NAME(cudaErrorMemoryAllocation),
      VENTRIS_NAME(cudaErrorInvalidConfiguration),
      VENTRIS_NAME(cudaErrorInsufficientDriver),
      VENTRIS_NAME(cudaErrorDevicesUnavailable),
      VENTRIS_NAME(cudaErrorInvalidDeviceFunction),
      VENTRIS_NAME(cudaErrorNoDevice),
      VENTRIS_NAME(cudaErrorInvalidDevice),
      VENTRIS_NAME(cudaErrorNoKernelImageForDevice),
      VENTRIS_NAME(cudaErrorNotReady),
      VENTRIS_NAME(cudaErrorIllegalAddress),
      VENTRIS_NAME(cudaErrorLaunchFailure),
      VENTRIS_NAME(cudaErrorStreamCaptureUnsupported),
      VENTRIS_NAME(cudaErrorStreamCaptureUnmatched),
      VENTRIS_NAME(cudaErrorStreamCaptureUnjoined),
      VENTRIS_NAME(cudaErrorStreamCaptureIsolation),
  };
#undef VENTRIS_NAME
  const auto found = names.find(status);
  return found == names.end() ? "unknown" : found->second;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  if (machine().driver < CUDART_VERSION) return result(cudaErrorInsufficientDriver);
  *count = machine().devices;
  return result(*count == 0 ? cudaErrorNoDevice : cudaSuccess);
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= machine().devices) return result(cudaErrorInvalidDevice);
  if (machine().taken) return result(cudaErrorDevicesUnavailable);
  current_device = device;
  return result(cudaSuccess);
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return result(cudaSuccess);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  if (device < 0 || device >= machine().devices) return result(cudaErrorInvalidDevice);
  *p = {};
  std::strncpy(p->name, machine().model.c_str(), sizeof(p->name) - 1);
  p->uuid.bytes[15] = static_cast<char>(device);
  p->totalGlobalMem = machine().memory_bytes;
  p->sharedMemPerMultiprocessor = machine().shared_bytes;
  p->major = ventris::emulation::machine().major;
  p->minor = 0;
  p->multiProcessorCount = 4;
  return result(cudaSuccess);
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp p;
  const cudaError_t status = cudaGetDeviceProperties(&p, device);
  if (status != cudaSuccess) return status;
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = p.multiProcessorCount;
      break;
    case cudaDevAttrComputeMode:
      *value = machine().mode;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = p.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = p.minor;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(p.sharedMemPerMultiprocessor);
      break;
  }
  return cudaSuccess;
}
/// As threads and shared memory allow; registers are not emulated.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int threads,
                                                          size_t shared_bytes) {
  constexpr int kThreads = 2048;
  *blocks = std::min(kThreads / threads,
                     static_cast<int>(machine().shared_bytes / (shared_bytes + Machine::kReservedBytes)));
  return result(cudaSuccess);
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = machine().driver;
  return result(cudaSuccess);
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return result(cudaSuccess);
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *total = machine().memory_bytes;
  *free = *total - ventris::emulation::device_bytes_used();
  return result(cudaSuccess);
}
