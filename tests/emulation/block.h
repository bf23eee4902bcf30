#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>

#include "tests/emulation/types.h"

/// Thread blocks on the CPU: every thread of a block is a fiber; a fiber runs until it waits for others.
namespace ventris::emulation {

/// What a kernel did that a GPU would not forgive.
struct KernelFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Runs all blocks of a launch, in order or in reverse. Throws KernelFault if threads wait for each other for
/// ever, take part in different warp operations, or write past the dynamic shared memory.
void run_grid(dim3 grid, dim3 block, size_t shared_bytes, bool reverse, const std::function<void()>& thread);

/// The calling thread waits for all threads of its block that have not ended.
void block_barrier();
/// The calling lane gives `bytes` (at most kSlotBytes) and gets what all lanes of its warp gave: that of lane
/// l at l * kSlotBytes, until its next exchange but one. `what` names the operation, which must be the same
/// in all lanes.
inline constexpr size_t kSlotBytes = 64;
const char* warp_exchange(const char* what, const void* give, size_t bytes);
int lane();
char* dynamic_shared_memory();
/// Counts the blocks that have been run, the present one included.
uint64_t block_number();

}  // namespace ventris::emulation
