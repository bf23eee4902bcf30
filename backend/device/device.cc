// SPDX-License-Identifier: Apache-2.0
#include "backend/device/device.h"

#include "backend/device/device_cuda.h"
#include "backend/device/error.h"
#include "backend/device/has_cuda.h"

namespace ventris {
namespace {

constexpr const char* kNotBuilt =
    "this program was built without CUDA (cmake -DVENTRIS_CUDA=ON builds it with CUDA)";

}  // namespace

int cuda_device_count() {
  if constexpr (kHasCuda) return device_count_cuda();
  return 0;
}

std::string cuda_unavailable_reason(int index) {
  if constexpr (kHasCuda) return unavailable_reason_cuda(index);
  return kNotBuilt;
}

std::string cuda_build() {
  if constexpr (kHasCuda) return build_cuda();
  return "no";
}

std::string cuda_device_name(int index) {
  if constexpr (kHasCuda) return device_name_cuda(index);
  fail(ExitCode::kUnavailable, "there is no CUDA device {}: {}", index, kNotBuilt);
}

int64_t cuda_device_memory(int index) {
  if constexpr (kHasCuda) return device_memory_cuda(index);
  fail(ExitCode::kUnavailable, "there is no CUDA device {}: {}", index, kNotBuilt);
}

DeviceMemory cuda_memory() {
  if constexpr (kHasCuda) return memory_cuda();
  fail(ExitCode::kUnavailable, "there is no CUDA device: {}", kNotBuilt);
}

std::string cuda_driver() {
  if constexpr (kHasCuda) return driver_cuda();
  return "";
}

std::string cuda_device_identity(int index) {
  if constexpr (kHasCuda) return device_identity_cuda(index);
  fail(ExitCode::kUnavailable, "there is no CUDA device {}: {}", index, kNotBuilt);
}

}  // namespace ventris
