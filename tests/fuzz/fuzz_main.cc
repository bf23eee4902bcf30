// SPDX-License-Identifier: Apache-2.0
// The entry of libFuzzer; VENTRIS_FUZZ_HARNESS is the function that the program feeds.

#include <cstdint>

#include "data/io/hdf5_child.h"
#include "tests/fuzz/harness.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  ventris::data::list_hdf5_if_asked(*argc, *argv);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr ventris::fuzz::Harness kHarness = {"", ventris::fuzz::VENTRIS_FUZZ_HARNESS};
  ventris::fuzz::run(kHarness, {reinterpret_cast<const char*>(data), size});
  return 0;
}
