// SPDX-License-Identifier: Apache-2.0
#include <cublasLt.h>
#include <fmt/core.h>

#include "backend/cuda/launch.cuh"
#include "backend/device/device_cuda.h"

namespace ventris {
namespace {

/// Never runs; it can be loaded if this build has code for the device.
__global__ void probe() {}

std::string version(int number) {
  return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

cudaDeviceProp properties(int index) {
  cudaDeviceProp properties;
  VENTRIS_CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
  return properties;
}

/// Why no device can be used, or "".
std::string reason_of(cudaError_t status) {
  static_cast<void>(cudaGetLastError());  // it is reported here
  if (status == cudaErrorInsufficientDriver) {
    int driver = 0;
    int runtime = 0;
    VENTRIS_CUDA_CHECK(cudaDriverGetVersion(&driver));
    VENTRIS_CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
    if (driver == 0) return "no NVIDIA driver is installed";
    return fmt::format(
        "the NVIDIA driver supports CUDA {}, but this program needs CUDA {}; install a newer driver",
        version(driver), version(runtime));
  }
  if (status == cudaErrorNoDevice) {
    return "the driver finds no device; nvidia-smi lists the devices, and CUDA_VISIBLE_DEVICES hides devices";
  }
  if (status != cudaSuccess)
    return fmt::format("{} ({})", cudaGetErrorString(status), cudaGetErrorName(status));
  return "";
}

}  // namespace

int device_count_cuda() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return 0;
  }
  return count;
}

std::string unavailable_reason_cuda(int index) {
  int count = 0;
  const std::string none = reason_of(cudaGetDeviceCount(&count));
  if (!none.empty()) return none;
  if (index < 0 || index >= count)
    return fmt::format("there is no CUDA device {}: there are {}, numbered from 0", index, count);
  const cudaDeviceProp found = properties(index);
  constexpr int kOldestMajor = 8;  // the first with bf16 and asynchronous copies
  if (found.major < kOldestMajor) {
    return fmt::format("CUDA device {} ({}) has compute capability {}.{}; {}.0 or newer is needed", index,
                       found.name, found.major, found.minor, kOldestMajor);
  }
  int mode = 0;
  VENTRIS_CUDA_CHECK(cudaDeviceGetAttribute(&mode, cudaDevAttrComputeMode, index));
  const std::string device = fmt::format("CUDA device {} ({})", index, found.name);
  if (mode == cudaComputeModeProhibited)
    return fmt::format("{} is in compute mode \"prohibited\"; reset it with nvidia-smi -c DEFAULT", device);
  cudaError_t status = cudaSetDevice(index);
  if (status == cudaSuccess) status = cudaFree(nullptr);  // creates the driver's context
  if (status == cudaErrorDevicesUnavailable) {
    static_cast<void>(cudaGetLastError());
    return fmt::format(
        "{} is in use by another process{}", device,
        mode == cudaComputeModeExclusiveProcess
            ? ": it is in compute mode \"exclusive process\"; reset it with nvidia-smi -c DEFAULT"
            : "");
  }
  if (status != cudaSuccess) return device + ": " + reason_of(status);
  cudaFuncAttributes attributes;
  status = cudaFuncGetAttributes(&attributes, probe);
  if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorInvalidDeviceFunction) {
    static_cast<void>(cudaGetLastError());
    return fmt::format("{} has compute capability {}.{}, but this build has kernels only for {}", device,
                       found.major, found.minor, VENTRIS_CUDA_ARCHITECTURES);
  }
  if (status != cudaSuccess) return device + ": " + reason_of(status);
  try {
    cublasLtGetVersion();  // opens the library
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string build_cuda() {
  return fmt::format("yes, CUDA {}, {}", version(CUDART_VERSION), VENTRIS_CUDA_ARCHITECTURES);
}

std::string device_name_cuda(int index) {
  const cudaDeviceProp found = properties(index);
  return fmt::format("{}, {} multiprocessors, {:.1f} GiB", found.name, found.multiProcessorCount,
                     static_cast<double>(found.totalGlobalMem) / (1 << 30));
}

int64_t device_memory_cuda(int index) {
  return static_cast<int64_t>(properties(index).totalGlobalMem);
}

DeviceMemory memory_cuda() {
  size_t free = 0;
  size_t total = 0;
  VENTRIS_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return {.used = static_cast<int64_t>(total - free), .total = static_cast<int64_t>(total)};
}

std::string driver_cuda() {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return "";
  }
  return driver == 0 ? "" : version(driver);
}

std::string device_identity_cuda(int index) {
  const cudaDeviceProp found = properties(index);
  std::string identity = "GPU-";
  for (const char byte : found.uuid.bytes)
    identity += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return identity;
}

}  // namespace ventris
