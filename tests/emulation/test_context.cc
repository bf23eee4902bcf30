#include "backend/context.h"
#include "tests/emulation/device_buffer.h"
#include "tests/emulation/memory.h"

namespace ventris {
namespace cuda {

cudaStream_t stream_of(Context&) {
  static cudaStream_t stream = [] {
    cudaStream_t made = nullptr;
    VENTRIS_CUDA_CHECK(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
    return made;
  }();
  return stream;
}

}  // namespace cuda

namespace testing {

Context& cuda_context() {
  static Context context({.device = Device::kCpu, .threads = 1, .scratch_bytes = size_t{64} << 20});
  static const bool adopted = [] {
    Arena& scratch = context.scratch();
    const ArenaScope scope(scratch);
    emulation::adopt_as_device_memory(scratch.allocate(0), scratch.capacity());
    return true;
  }();
  static_cast<void>(adopted);
  return context;
}

}  // namespace testing
}  // namespace ventris
