// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// backend/cuda/mma.cuh for the CPU; the contracts stand there. Asynchronous copies happen at the wait for
/// them; until then their destination holds 0xFF bytes.
namespace ventris::cuda {

void async_copy_16(void* shared, const void* global, bool valid = true);
void async_commit();
void async_wait_groups(int groups);
template <int kGroups>
void async_wait() {
  async_wait_groups(kGroups);
}

void load_matrices(uint32_t (&out)[4], const void* shared_row, bool transposed);
template <bool kTransposed>
void load_matrices(uint32_t (&out)[4], const void* shared_row) {
  load_matrices(out, shared_row, kTransposed);
}
void multiply_16x8x16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);

}  // namespace ventris::cuda
