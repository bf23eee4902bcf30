// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

/// Tensor cores and asynchronous copies: instructions of compute capability 8.0 and newer, under our own
/// names; tests/emulation has a file of the same name with the same functions for the CPU. The layouts are
/// those of the PTX ISA: "cp.async", "ldmatrix", and "Matrix Fragments for mma.m16n8k16 with floating point
/// type".
namespace ventris::cuda {

/// Copies 16 bytes, both ends aligned to 16, from global to shared memory without waiting; zeros if not
/// `valid` (then nothing is read). The copy is complete after async_wait of its group and a sync.
__device__ __forceinline__ void async_copy_16(void* shared, const void* global, bool valid = true) {
  const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(bytes) : "memory");
}
/// Ends a group of copies of this thread; the group may be empty.
__device__ __forceinline__ void async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Waits until at most the last kGroups groups of this thread are pending.
template <int kGroups>
__device__ __forceinline__ void async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

/// Four 8 x 8 matrices of 16-bit elements from shared memory, by the whole warp: lane l gives the address,
/// aligned to 16, of row l % 8 of matrix l / 8. With g = lane / 4 and t = lane % 4, out[m] is of matrix M_m
///   the elements M[g][2t] (low half) and M[g][2t + 1], or M[2t][g] and M[2t + 1][g] if kTransposed.
template <bool kTransposed>
__device__ __forceinline__ void load_matrices(uint32_t (&out)[4], const void* shared_row) {
  const auto from = static_cast<uint32_t>(__cvta_generic_to_shared(shared_row));
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(from)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(from)
                 : "memory");
  }
}

/// D += A B, by the whole warp: A [16, 16] and B [16, 8] bf16, D [16, 8] f32. With g = lane / 4 and
/// t = lane % 4, a lane holds (low half of a register first)
///   a[0] = A[g][2t], A[g][2t + 1]            a[1] = A[g + 8][2t], A[g + 8][2t + 1]
///   a[2] = A[g][2t + 8], A[g][2t + 9]        a[3] = A[g + 8][2t + 8], A[g + 8][2t + 9]
///   b[0] = B[2t][g], B[2t + 1][g]            b[1] = B[2t + 8][g], B[2t + 9][g]
///   d[0] = D[g][2t], d[1] = D[g][2t + 1]     d[2] = D[g + 8][2t], d[3] = D[g + 8][2t + 1]
__device__ __forceinline__ void multiply_16x8x16(float (&d)[4], const uint32_t (&a)[4],
                                                 const uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace ventris::cuda
