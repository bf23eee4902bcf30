// The entry of libFuzzer; VENTRIS_FUZZ_HARNESS is the function that the program feeds.

#include <cstdint>

#include "tests/fuzz/harness.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr ventris::fuzz::Harness kHarness = {"", ventris::fuzz::VENTRIS_FUZZ_HARNESS};
  ventris::fuzz::run(kHarness, {reinterpret_cast<const char*>(data), size});
  return 0;
}
