// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace ventris {

/// A fixed set of threads, including the calling one. All parallel work of a Context goes through one pool.
/// Inside its threads oneDNN and OpenMP are limited to one thread.
class ThreadPool {
 public:
  /// Requires 1 <= threads <= 4096. One thread means that everything runs in the caller. Throws
  /// Error(kUnavailable) if the system gives no more threads.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  /// Calls body(index, thread) once for each index in [0, count), each index by any one thread, and returns
  /// when all are done. `thread` is in [0, threads()) and may select per-thread scratch. The result for an
  /// index must not depend on the thread, so that results do not depend on the number of threads. The first
  /// exception is rethrown in the caller. Not reentrant: a body must not call the pool.
  template <typename Body>
  void for_each(int64_t count, Body&& body) {
    using B = std::remove_reference_t<Body>;
    run(
        count, [](void* state, int64_t index, int thread) { (*static_cast<B*>(state))(index, thread); },
        const_cast<void*>(static_cast<const void*>(&body)));
  }

  /// Cuts [0, total) into ranges of `chunk` (the last may be shorter) and calls body(begin, end, thread) for
  /// each. The partition depends only on `total` and `chunk`.
  template <typename Body>
  void for_ranges(int64_t total, int64_t chunk, Body&& body) {
    const int64_t count = (total + chunk - 1) / chunk;
    for_each(count, [&](int64_t index, int thread) {
      const int64_t begin = index * chunk;
      body(begin, begin + chunk < total ? begin + chunk : total, thread);
    });
  }

 private:
  using Function = void (*)(void* state, int64_t index, int thread);
  void run(int64_t count, Function function, void* state);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ventris
