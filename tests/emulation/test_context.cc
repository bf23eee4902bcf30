#include "backend/context.h"
#include "tests/emulation/device_buffer.h"

namespace ventris::testing {

Context& cuda_context() {
  static Context context({.device = Device::kCuda, .scratch_bytes = size_t{4} << 20});
  return context;
}

Context& cpu_context() {
  static Context context({.scratch_bytes = size_t{4} << 20});
  return context;
}

}  // namespace ventris::testing
