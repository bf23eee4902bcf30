#pragma once

#include <cuda_runtime.h>

#include <cstdint>

/// The instructions of the GPU that C++ has no word for, under names of ours. Kernels use these and no
/// others; tests/emulation has a file of the same name with the same functions for the CPU.
namespace ventris::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;

/// Waits for all threads of the block; what they wrote to shared and global memory is then visible to all of
/// them.
__device__ __forceinline__ void sync_threads() {
  __syncthreads();
}
/// Likewise for the lanes of a warp.
__device__ __forceinline__ void sync_warp() {
  __syncwarp(kAllLanes);
}

/// The dynamic shared memory of the block, aligned to 128 bytes.
template <typename T>
__device__ __forceinline__ T* dynamic_shared() {
  extern __shared__ __align__(128) unsigned char ventris_dynamic_shared[];
  return reinterpret_cast<T*>(ventris_dynamic_shared);
}

/// Exchanges between the 32 lanes of a warp; all lanes must call. T: 4 or 8 bytes.
template <typename T>
__device__ __forceinline__ T shuffle(T value, int lane) {
  return __shfl_sync(kAllLanes, value, lane);
}
template <typename T>
__device__ __forceinline__ T shuffle_xor(T value, int mask) {
  return __shfl_xor_sync(kAllLanes, value, mask);
}
template <typename T>
__device__ __forceinline__ T shuffle_down(T value, int distance) {
  return __shfl_down_sync(kAllLanes, value, static_cast<unsigned>(distance));
}
/// Bit l of the result is the predicate of lane l.
__device__ __forceinline__ unsigned ballot(bool predicate) {
  return __ballot_sync(kAllLanes, predicate);
}
__device__ __forceinline__ bool any_lane(bool predicate) {
  return __any_sync(kAllLanes, predicate) != 0;
}
__device__ __forceinline__ bool all_lanes(bool predicate) {
  return __all_sync(kAllLanes, predicate) != 0;
}

/// Integers only: sums and minima of them do not depend on the order.
__device__ __forceinline__ int atomic_add(int* to, int value) {
  return atomicAdd(to, value);
}
__device__ __forceinline__ unsigned long long atomic_min(unsigned long long* to, unsigned long long value) {
  return atomicMin(to, value);
}

/// Bits of `value` as bf16, to nearest, ties to even.
__device__ __forceinline__ uint16_t to_bf16_bits(float value) {
  uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
/// Two of them; `low` in the low half.
__device__ __forceinline__ uint32_t to_bf16_pair(float low, float high) {
  uint32_t bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}
__device__ __forceinline__ float from_bf16_bits(uint16_t bits) {
  return __uint_as_float(static_cast<uint32_t>(bits) << 16);
}

/// Copies 16 bytes, both ends aligned to 16, from global to shared memory without waiting; zeros where not
/// `valid`. The copy is there after async_wait of its group and a sync.
__device__ __forceinline__ void async_copy_16(void* shared, const void* global, bool valid = true) {
  const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(bytes) : "memory");
}
/// Ends a group of copies of this thread.
__device__ __forceinline__ void async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Waits until at most the last kGroups groups of this thread are under way.
template <int kGroups>
__device__ __forceinline__ void async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

/// Four 8 x 8 matrices of 16-bit elements from shared memory: lane l gives the address, aligned to 16, of row
/// l % 8 of matrix l / 8; gets of each matrix elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4, or of column
/// l / 4 if kTransposed.
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

/// d += a b on the tensor cores: a [16, 16] bf16, b [16, 8] bf16, d [16, 8] f32, spread over the warp. With g
/// = lane / 4 and t = lane % 4, and pairs of neighbours in the two halves of a register:
///   a[0] = A[g][2t..], a[1] = A[g + 8][2t..], a[2] = A[g][2t + 8..], a[3] = A[g + 8][2t + 8..]
///   b[0] = B[2t..][g], b[1] = B[2t + 8..][g];  d[0], d[1] = D[g][2t, 2t + 1], d[2], d[3] = D[g + 8][2t, 2t +
///   1]
__device__ __forceinline__ void multiply_16x8x16(float (&d)[4], const uint32_t (&a)[4],
                                                 const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace ventris::cuda
