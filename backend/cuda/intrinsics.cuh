// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

/// GPU instructions that C++ lacks, under our own names. Kernels use only these and those of mma.cuh;
/// tests/emulation has a file of the same name with the same functions for the CPU.
namespace ventris::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;

/// Waits for all threads of the block; their writes to shared and global memory are then visible to all of
/// them.
__device__ __forceinline__ void sync_threads() {
  __syncthreads();
}
/// The same for the lanes of a warp.
__device__ __forceinline__ void sync_warp() {
  __syncwarp(kAllLanes);
}

/// The dynamic shared memory of the block, aligned to 128 bytes.
template <typename T>
__device__ __forceinline__ T* dynamic_shared() {
  extern __shared__ __align__(128) unsigned char ventris_dynamic_shared[];
  return reinterpret_cast<T*>(ventris_dynamic_shared);
}

/// Exchanges values between the 32 lanes of a warp; all lanes must call. T: 4 or 8 bytes.
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

/// Integers only, as their sums and extremes do not depend on the order.
__device__ __forceinline__ int atomic_add(int* to, int value) {
  return atomicAdd(to, value);
}
__device__ __forceinline__ unsigned long long atomic_add(unsigned long long* to, unsigned long long value) {
  return atomicAdd(to, value);
}
__device__ __forceinline__ void atomic_set(int* to, int value) {
  atomicExch(to, value);
}
__device__ __forceinline__ unsigned long long atomic_min(unsigned long long* to, unsigned long long value) {
  return atomicMin(to, value);
}
__device__ __forceinline__ long long atomic_max(long long* to, long long value) {
  return atomicMax(to, value);
}

/// Memory that no kernel writes while this one runs.
__device__ __forceinline__ uint32_t read_only(const uint32_t* from) {
  return __ldg(from);
}

__device__ __forceinline__ uint32_t to_bits(float value) {
  return __float_as_uint(value);
}
__device__ __forceinline__ float from_bits(uint32_t bits) {
  return __uint_as_float(bits);
}

/// 2^value by the special function unit: relative error at most 2^-22; 0 for results below 2^-126 (PTX ISA,
/// "ex2").
__device__ __forceinline__ float fast_exp2(float value) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(value));
  return power;
}

/// Bits of `value` as bf16, to nearest, ties to even.
__device__ __forceinline__ uint16_t to_bf16_bits(float value) {
  uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
/// Two values; `low` in the low half.
__device__ __forceinline__ uint32_t to_bf16_pair(float low, float high) {
  uint32_t bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}
__device__ __forceinline__ float from_bf16_bits(uint16_t bits) {
  return from_bits(static_cast<uint32_t>(bits) << 16);
}

}  // namespace ventris::cuda
