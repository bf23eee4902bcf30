#pragma once

#include <cstddef>
#include <memory>

#include "backend/arena.h"
#include "backend/thread_pool.h"

namespace ventris {

class GemmCache;

struct ContextOptions {
  Device device = Device::kCpu;
  int threads = 1;                          // CPU threads; results do not depend on it
  size_t scratch_bytes = size_t{64} << 20;  // for operations' intermediate results
};

/// A device with its threads (its stream, on CUDA), its GEMM primitives and its scratch memory. Passed by
/// reference to every operation. One thread at a time may use a context.
class Context {
 public:
  explicit Context(const ContextOptions& options);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Device device() const { return options_.device; }
  ThreadPool& pool() { return pool_; }
  /// Operations take scratch inside an ArenaScope. An operation that needs more than there is makes it grow,
  /// which happens in the first step of a shape larger than those before, if at all.
  Arena& scratch() { return scratch_; }
  /// Makes sure that scratch() has at least `bytes` left. Requires that nothing is allocated in it.
  void reserve_scratch(size_t bytes);
  GemmCache& gemm_cache() { return *gemm_cache_; }

 private:
  ContextOptions options_;
  ThreadPool pool_;
  Arena scratch_;
  std::unique_ptr<GemmCache> gemm_cache_;
};

}  // namespace ventris
