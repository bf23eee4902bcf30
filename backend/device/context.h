// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "backend/device/arena.h"
#include "backend/device/thread_pool.h"

namespace ventris {

class GemmCache;
class Profile;
struct CudaDevice;  // backend/device/context_cuda.h: stream, cuBLASLt handle and workspace
using CudaDevicePtr = std::unique_ptr<CudaDevice, void (*)(CudaDevice*)>;

struct ContextOptions {
  Device device = Device::kCpu;
  int device_index = 0;                     // of CUDA
  int threads = 1;                          // CPU threads; results do not depend on it
  size_t scratch_bytes = size_t{64} << 20;  // for operations' intermediate results
};

/// A device with its threads (its stream, on CUDA), its GEMM primitives and its scratch memory. Passed by
/// reference to every operation. One thread at a time may use a context.
class Context {
 public:
  /// Throws Error(kUnavailable) with the reason if a device is not available. On CUDA the device becomes the
  /// calling thread's device.
  explicit Context(const ContextOptions& options);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Device device() const { return options_.device; }
  ThreadPool& pool() { return pool_; }
  /// Operations allocate scratch inside an ArenaScope. An operation that needs more makes it grow, which
  /// happens at most in the first step of a larger shape, and never while the stream is captured into a
  /// graph. On CUDA the replaced memory lives as long as the context, since captured graphs may hold its
  /// addresses.
  Arena& scratch() { return scratch_; }
  /// Ensures that scratch() has at least `bytes` left. Requires that nothing is allocated in it.
  void reserve_scratch(size_t bytes);
  /// Off until a step of it begins (backend/device/profile.h).
  Profile& profile() { return *profile_; }
  /// CPU only.
  GemmCache& gemm_cache() { return *gemm_cache_; }
  /// CUDA only.
  CudaDevice& cuda() { return *cuda_; }

 private:
  ContextOptions options_;
  CudaDevicePtr cuda_;
  ThreadPool pool_;
  std::vector<Arena> outgrown_;
  Arena scratch_;
  std::unique_ptr<GemmCache> gemm_cache_;
  std::unique_ptr<Profile> profile_;
};

}  // namespace ventris
