// The entry of libFuzzer; VENTRIS_FUZZ_HARNESS names the harness of this program.

#include <cstdint>

#include "tests/fuzz/harness.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const ventris::fuzz::Harness& harness = ventris::fuzz::harness_of(VENTRIS_FUZZ_HARNESS);
  ventris::fuzz::run(harness, {reinterpret_cast<const char*>(data), size});
  return 0;
}
