// SPDX-License-Identifier: Apache-2.0
#include "backend/device/context.h"
#include "tests/emulation/device_buffer.h"
#include "tests/support/test_device.h"

namespace ventris::testing {

Context& cuda_context() {
  static Context context({.device = Device::kCuda, .scratch_bytes = size_t{4} << 20});
  return context;
}

Context& cpu_context() {
  static Context context({.scratch_bytes = size_t{4} << 20});
  return context;
}

Device test_device() {
  return Device::kCuda;
}

Context& test_context() {
  return cuda_context();
}

Context& other_context() {
  return cuda_context();
}

void* allocate_on_test_device(size_t bytes) {
  void* address = nullptr;
  VENTRIS_CUDA_CHECK(cudaMalloc(&address, bytes));
  return address;
}

void free_on_test_device(void* address) {
  static_cast<void>(cudaFree(address));
}

}  // namespace ventris::testing
