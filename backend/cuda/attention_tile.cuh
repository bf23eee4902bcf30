// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "backend/cuda/attention_inputs.cuh"
#include "backend/cuda/launch.cuh"

/// Shared by the attention kernels for any dtype, head size and alignment. All sums and products are f32. A
/// block processes one sentence and one head; its warps hold kOwn rows each ("own" rows: queries, or keys for
/// the gradient of keys) against tiles of kTile rows of the other side in shared memory, one for each lane.
namespace ventris::cuda {

inline constexpr int kAttentionWarps = 4;
inline constexpr int kAttentionThreads = kAttentionWarps * kWarp;
inline constexpr int kTile = kWarp;
inline constexpr int kOwn = 4;
inline constexpr int kBlockOwn = kAttentionWarps * kOwn;

/// A thread of a block, and the block's sentence and head: grid (sentences, heads).
struct Place {
  int warp = static_cast<int>(threadIdx.x) / kWarp;
  int lane = static_cast<int>(threadIdx.x) % kWarp;
  int head = static_cast<int>(blockIdx.y);
  Span span;
  int stride;  // of rows in shared memory; odd for the usual head sizes: a column of 32 rows lies in 32 banks

  template <typename T>
  __device__ __forceinline__ explicit Place(const AttentionInputs<T>& in)
      : span(in.span(static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y))), stride(in.d_head + 1) {}

  /// Lane 4 q + b: the mask of query `first` + q and of block b of eight keys of the tile that begins at
  /// `tile`.
  __device__ __forceinline__ uint32_t kept(const Mask& mask, int first, int tile) const {
    if (mask.threshold == 0) return 0xFFU;
    return mask.kept(static_cast<uint32_t>(span.query_begin + first + lane / 4 % kOwn),
                     static_cast<uint32_t>(tile / kPack + lane % 4), static_cast<uint32_t>(head));
  }
};
template <typename T>
dim3 grid_of(const AttentionInputs<T>& in) {
  return {static_cast<unsigned>(in.sentences), static_cast<unsigned>(in.heads)};
}

/// The whole block: to[i, c] = factor * from[i, c] for i < rows; zeros for rows from `rows` to `room`.
/// Coalesced.
template <typename T>
__device__ __forceinline__ void stage(const Rows<const T>& from, int64_t begin, int rows, int64_t column,
                                      int d_head, int room, float factor, float* to, int stride) {
  for (int i = static_cast<int>(threadIdx.x) / kWarp; i < room; i += kAttentionWarps) {
    const T* row = from.row(begin + i) + column;
    for (int c = static_cast<int>(threadIdx.x) % kWarp; c < d_head; c += kWarp) {
      to[i * stride + c] = i < rows ? factor * load(row[c]) : 0.0F;
    }
  }
}

__device__ __forceinline__ float dot(const float* a, const float* b, int count) {
  float sum = 0.0F;
  for (int c = 0; c < count; ++c) sum += a[c] * b[c];
  return sum;
}

/// One warp: sum[k] += sum over the tile of weights[i] * rows[i, lane + 32 k].
template <int kColumns>
__device__ __forceinline__ void add_weighted(const float* weights, const float* rows, int stride, int d_head,
                                             float (&sum)[kColumns]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int i = 0; i < kTile; ++i) {
#pragma unroll
    for (int k = 0; k < kColumns; ++k) {
      const int c = lane + k * kWarp;
      if (c < d_head) sum[k] += weights[i] * rows[i * stride + c];
    }
  }
}

/// One warp: to[lane + 32 k] = factor * sum[k].
template <typename T, int kColumns>
__device__ __forceinline__ void store_columns(const float (&sum)[kColumns], float factor, int d_head, T* to) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int k = 0; k < kColumns; ++k) {
    if (lane + k * kWarp < d_head) store(to[lane + k * kWarp], factor * sum[k]);
  }
}

/// Sets the rows from `begin[0]` on to zero. One warp: one row. Grid: rows / kAttentionWarps.
template <typename T>
__global__ void clear_rows(Rows<T> tensor, int64_t rows, int64_t cols, const int32_t* begin) {
  const int64_t r = int64_t{blockIdx.x} * kAttentionWarps + threadIdx.x / kWarp;
  if (r >= rows || r < *begin) return;
  for (int64_t c = threadIdx.x % kWarp; c < cols; c += kWarp) store(tensor.row(r)[c], 0.0F);
}
template <typename T>
void launch_clear_rows(cudaStream_t stream, const Tensor& tensor, const int32_t* begin) {
  launch({.name = "clear_rows", .grid = blocks_for(tensor.rows, kAttentionWarps), .block = kAttentionThreads},
         stream, clear_rows<T>, rows_of<T>(tensor), tensor.rows, tensor.cols, begin);
}

/// Calls body with the number of columns of a head that one lane holds.
template <typename Body>
void dispatch_columns(int64_t d_head, Body&& body) {
  VENTRIS_CHECK(d_head <= 8 * kWarp, "attention on cuda supports heads of at most {} columns, not {}",
                8 * kWarp, d_head);
  if (d_head <= kWarp) return body(std::integral_constant<int, 1>{});
  if (d_head <= 2 * kWarp) return body(std::integral_constant<int, 2>{});
  if (d_head <= 4 * kWarp) return body(std::integral_constant<int, 4>{});
  body(std::integral_constant<int, 8>{});
}

}  // namespace ventris::cuda
