// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace ventris {

/// Shared memory that a kernel declares beside its dynamic one at most, with room for alignment.
inline constexpr size_t kDeclaredSharedBytes = 1024;
/// What a multiprocessor takes of its shared memory for each block ("Technical Specifications per Compute
/// Capability" of the CUDA C++ Programming Guide, from 8.0 on).
inline constexpr size_t kReservedSharedBytes = 1024;

/// Blocks that run on a multiprocessor at a time, by its shared memory and the dynamic one of a block alone.
constexpr size_t resident_blocks(size_t processor_bytes, size_t block_bytes) {
  return processor_bytes / (block_bytes + kDeclaredSharedBytes + kReservedSharedBytes);
}

/// Whether a kernel that can do with `less_bytes` is not to take `all_bytes`: where fewer than two blocks
/// would run at a time, since nothing then runs while one waits, and more would with less.
constexpr bool keeps_less(size_t processor_bytes, size_t all_bytes, size_t less_bytes) {
  const size_t blocks = resident_blocks(processor_bytes, all_bytes);
  return blocks < 2 && resident_blocks(processor_bytes, less_bytes) > blocks;
}

}  // namespace ventris
