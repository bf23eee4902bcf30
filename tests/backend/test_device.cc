// SPDX-License-Identifier: Apache-2.0
#include "tests/support/test_device.h"

#include <new>

namespace ventris::testing {

Device test_device() {
  return Device::kCpu;
}

Context& test_context() {
  static Context context({.threads = 3, .scratch_bytes = size_t{1} << 16});
  return context;
}

Context& other_context() {
  static Context context({.threads = 1, .scratch_bytes = size_t{1} << 16});
  return context;
}

void* allocate_on_test_device(size_t bytes) {
  return ::operator new(bytes);
}

void free_on_test_device(void* address) {
  ::operator delete(address);
}

}  // namespace ventris::testing
