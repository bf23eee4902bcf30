// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/device/tensor.h"

namespace ventris {

enum class Device { kCpu, kCuda };

const char* name_of(Device device);

/// One block of device memory, handed out front to back in pieces aligned to 128 bytes. Not thread-safe.
/// A measuring arena owns no memory: it hands out null addresses and counts, so that the same planning code
/// first measures and then allocates.
class Arena {
 public:
  /// A measuring arena.
  Arena() = default;
  /// Owns `capacity` bytes on `device` (on CUDA, the calling thread's device), zeroed. Throws
  /// Error(kUnavailable) naming the requested size and `purpose`.
  Arena(Device device, size_t capacity, const char* purpose = "a model");
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Requires: the arena measures, or has `bytes` left.
  void* allocate(size_t bytes);
  Tensor allocate(int64_t rows, int64_t cols, DType dtype);
  template <typename T>
  T* allocate_array(int64_t count) {
    return static_cast<T*>(allocate(static_cast<size_t>(count) * sizeof(T)));
  }

  bool measuring() const { return base_ == nullptr; }
  size_t used() const { return used_; }
  size_t high_water() const { return high_water_; }
  size_t capacity() const { return capacity_; }
  /// Frees everything that was allocated after used() was `mark`.
  void release_to(size_t mark);
  /// Returns the whole pages of a piece of a CPU arena to the system; their content is zero afterwards.
  void discard(void* begin, size_t bytes);

 private:
  Device device_ = Device::kCpu;
  char* base_ = nullptr;
  size_t capacity_ = 0;
  size_t used_ = 0;
  size_t high_water_ = 0;
};

/// Frees, at the end of a scope, the arena memory that was allocated inside it.
class ArenaScope {
 public:
  explicit ArenaScope(Arena& arena) : arena_(arena), mark_(arena.used()) {}
  ~ArenaScope() { arena_.release_to(mark_); }
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  Arena& arena_;
  size_t mark_;
};

}  // namespace ventris
