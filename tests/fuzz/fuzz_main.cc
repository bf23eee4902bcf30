// SPDX-License-Identifier: Apache-2.0
// The entry of libFuzzer; VENTRIS_FUZZ_HARNESS is the function that the program feeds.

#include <pthread.h>

#include <cstdint>

#include "data/files/hdf5_process.h"
#include "tests/fuzz/harness.h"

// As in sanitizer/common_interface_defs.h, which not every compiler that has the function brings.
extern "C" void __sanitizer_set_death_callback(void (*callback)());

/// A confined process may end with a fault, and tells its parent; libFuzzer's callback would write an empty
/// file for it.
extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  const int rc = ::pthread_atfork(nullptr, nullptr, [] { __sanitizer_set_death_callback(nullptr); });
  static const ventris::data::Hdf5Process kReader;
  return rc;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr ventris::fuzz::Harness kHarness = {"", ventris::fuzz::VENTRIS_FUZZ_HARNESS};
  ventris::fuzz::run(kHarness, {reinterpret_cast<const char*>(data), size});
  return 0;
}
