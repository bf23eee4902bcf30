// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "backend/cuda/elements.cuh"

/// Sums over one long row by one block, for softmax over a vocabulary.
namespace ventris::cuda {

inline constexpr int kRowThreads = 256;
inline constexpr int64_t kRowPack = int64_t{kRowThreads} * kPack;  // columns that a block processes at a time

struct RowSums {
  float max;
  double exp;  // sum of e^(x - max)
};

/// The sums of x = factor * row over the first n columns, in one pass: every thread rescales its sum when its
/// maximum grows. All threads of a block of kRowThreads must call, and get the result. `room`: shared memory
/// for one double per warp.
template <bool kVectors, typename T>
__device__ __forceinline__ RowSums row_sums(const T* row, int64_t n, double* room, float factor = 1.0F) {
  float max = -INFINITY;
  float exp_sum = 0.0F;
  for (int64_t begin = int64_t{threadIdx.x} * kPack; begin < n; begin += kRowPack) {
    float v[kPack];
    load_pack<kVectors>(row, begin, n, v);
    for (float& x : v) x *= factor;
    float pack_max = v[0];
    for (int i = 0; i < kPack; ++i) {
      if (begin + i >= n) v[i] = -INFINITY;
      pack_max = v[i] > pack_max ? v[i] : pack_max;
    }
    if (pack_max > max) {
      exp_sum *= max == -INFINITY ? 0.0F : expf(max - pack_max);
      max = pack_max;
    }
    for (int i = 0; i < kPack; ++i) exp_sum += v[i] == -INFINITY ? 0.0F : expf(v[i] - max);
  }
  // The maximum over the block, through the same shared memory.
  float block_max = warp_max(max);
  sync_threads();
  if (threadIdx.x % kWarp == 0) room[threadIdx.x / kWarp] = static_cast<double>(block_max);
  sync_threads();
  for (int w = 0; w < kRowThreads / kWarp; ++w) {
    const float other = static_cast<float>(room[w]);
    block_max = other > block_max ? other : block_max;
  }
  const float scaled = max == -INFINITY ? exp_sum : exp_sum * expf(max - block_max);
  return {block_max, block_sum(static_cast<double>(scaled), room)};
}

}  // namespace ventris::cuda
