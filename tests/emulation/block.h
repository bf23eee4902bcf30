// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

#include "tests/emulation/random.h"
#include "tests/emulation/types.h"

/// Thread blocks on the CPU: every thread of a block is a fiber; a fiber runs until it waits for others.
namespace ventris::emulation {

/// What a kernel did that a GPU would not forgive.
struct KernelFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Grid {
  dim3 blocks;
  dim3 threads;  // of a block
  size_t shared_bytes;
};

/// Runs all blocks of a launch in a random order, 4 to 8 of them in turns, their threads in orders that
/// change with every turn. Shared memory holds 0xFF bytes when a block begins. Throws KernelFault if threads
/// wait for each other for ever, take part in different warp operations, or write past the dynamic shared
/// memory. Returns how often the threads of a block met, at barriers of the block and in operations of its
/// first warp; the most of all blocks.
uint64_t run_grid(const Grid& grid, Random random, const std::function<void()>& thread);

/// The calling thread waits for all threads of its block that have not ended.
void block_barrier();
/// The calling lane gives `bytes` (at most kSlotBytes) and gets what all lanes of its warp gave: that of lane
/// l at l * bytes, until its next exchange but one. `what` names the operation, which must be the same in all
/// lanes, as `bytes` must.
inline constexpr size_t kSlotBytes = 64;
const char* warp_exchange(const char* what, const void* give, size_t bytes);
/// An exchange of nothing. For the race detector it alone orders the memory accesses of a warp: shuffles and
/// votes promise nothing of memory.
void warp_barrier();
/// Now and then other threads, of this block and of others, run before it returns.
void pass_time();
/// Ends the launch with a KernelFault. For callers through which nothing can be thrown.
[[noreturn]] void fail_thread(const std::string& text);

int lane();
char* dynamic_shared_memory();
/// Counts the blocks that have begun, those before the calling one included.
uint64_t block_number();
/// A number of the calling thread that no other thread has at the same time.
inline constexpr unsigned kMaxPlaces = 8 * 1024;
unsigned thread_place();

}  // namespace ventris::emulation
