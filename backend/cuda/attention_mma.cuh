// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cuda/attention_work.cuh"
#include "backend/cuda/mma.cuh"

/// Matrix products of attention on tensor cores. A block has kTileRows rows of each operand in shared memory:
/// kTile rows for each of its heads, one head after the other. A warp owns 16 of these rows, those from
/// 16 * warp on. A, B and D are the operands of multiply_16x8x16; a pair is 16 columns, two of its results.
namespace ventris::cuda {

inline constexpr int kWarpRows = 16;

/// Elements between rows of kCols in shared memory: 16 bytes more than the row, so that eight rows of a
/// matrix are in different banks.
template <int kCols>
inline constexpr int kPaddedRow = kCols + kPack;
template <int kCols>
inline constexpr int kTileElements = kTileRows* kPaddedRow<kCols>;

/// The position of a thread in its warp and block.
template <int kTile>
struct WarpPlace {
  int warp = static_cast<int>(threadIdx.x / kWarp);
  int lane = static_cast<int>(threadIdx.x % kWarp);
  int row = lane / 4;                                  // of its results, also row + 8
  int column = lane % 4 * 2;                           // of its results in each 8, also column + 1
  int head = warp / (kTile / kWarpRows);               // among the block's
  int first = warp % (kTile / kWarpRows) * kWarpRows;  // of the warp's rows in the tile of its head
};

__device__ __forceinline__ constexpr int pairs_of(int columns) {
  return (columns + kWarpRows - 1) / kWarpRows;
}

/// The block: starts to copy rows [begin, begin + rows), at most kTile, of heads `head`, `head` + 1, ... to
/// shared memory, with zeros up to a multiple of 16 rows, and for missing heads.
template <int kHead, int kTile>
__device__ __forceinline__ void stage_tile(const Rows<const BF16>& from, int64_t begin, int rows, int head,
                                           int heads, BF16* to) {
  constexpr int kChunks = kHead / kPack;
  constexpr int kRowChunks = kHeadsOfTile<kTile> * kChunks;
  static_assert(kTensorThreads % kRowChunks == 0);
  const int chunk = static_cast<int>(threadIdx.x % kRowChunks);
  const int which = chunk / kChunks;
  const int column = head * kHead + chunk * kPack;
  const int room = rows < kTile ? pairs_of(rows) * kWarpRows : kTile;
  constexpr int kStep = kTensorThreads / kRowChunks;  // rows that are copied at a time
  const int first = static_cast<int>(threadIdx.x / kRowChunks);
  to += (which * kTile + first) * kPaddedRow<kHead> + chunk % kChunks * kPack;
  const BF16* row = from.row(begin + first) + column;
  const int64_t step = kStep * from.stride;
#pragma unroll 1
  for (int i = first; i < room; i += kStep, to += kStep * kPaddedRow<kHead>, row += step) {
    const bool valid = i < rows && head + which < heads;
    async_copy_16(to, row, valid);
  }
}

/// sum[16, 16 * kPairs] += left[16, kHead] right[16 * kPairs, kHead]^T, the first `used` pairs of columns.
template <int kHead, int kPairs>
__device__ __forceinline__ void multiply_transposed(const BF16* left, const BF16* right, int used,
                                                    float (&sum)[2 * kPairs][4]) {
  constexpr int kStride = kPaddedRow<kHead>;
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  left += lane % 16 * kStride + lane / 16 * 8;
  right += (lane % 8 + lane / 16 * 8) * kStride + lane / 8 % 2 * 8;
#pragma unroll
  for (int k = 0; k < kHead; k += 16) {
    uint32_t a[4];
    load_matrices<false>(a, left + k);
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      if (j < used) {
        uint32_t b[4];
        load_matrices<false>(b, right + j * 16 * kStride + k);
        multiply_16x8x16(sum[2 * j], a, {b[0], b[1]});
        multiply_16x8x16(sum[2 * j + 1], a, {b[2], b[3]});
      }
    }
  }
}

/// sum[16, kHead] += A[16, 16] right[16, kHead].
template <int kHead>
__device__ __forceinline__ void multiply_rows(const uint32_t (&a)[4], const BF16* right,
                                              float (&sum)[kHead / 8][4]) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  right += lane % 16 * kPaddedRow<kHead> + lane / 16 * 8;
#pragma unroll
  for (int n = 0; n < kHead / 16; ++n) {
    uint32_t b[4];
    load_matrices<true>(b, right + 16 * n);
    multiply_16x8x16(sum[2 * n], a, {b[0], b[1]});
    multiply_16x8x16(sum[2 * n + 1], a, {b[2], b[3]});
  }
}

/// The results D of one pair of columns as the operand A of the next product.
__device__ __forceinline__ void as_left(const float (&low)[4], const float (&high)[4], uint32_t (&a)[4]) {
  a[0] = to_bf16_pair(low[0], low[1]);
  a[1] = to_bf16_pair(low[2], low[3]);
  a[2] = to_bf16_pair(high[0], high[1]);
  a[3] = to_bf16_pair(high[2], high[3]);
}

/// The warp's dropout mask of 16 rows (from `row`) and 16 columns (two blocks of eight, from `block`): bit
/// mask_bit(n, e) belongs to element e of result n of a pair. Each lane computes one of the 32 pieces.
__device__ __forceinline__ uint32_t pair_mask(const Mask& mask, uint32_t row, uint32_t block, uint32_t head) {
  const uint32_t lane = threadIdx.x % kWarp;
  const uint32_t t = lane % 4;
  uint32_t bits = mask.kept(row + lane / 4 + 8 * (t % 2), block + t / 2, head) << (8 * t);
  bits |= shuffle_xor(bits, 1);
  bits |= shuffle_xor(bits, 2);
  return bits >> (2 * t);
}
__device__ __forceinline__ constexpr int mask_bit(int n, int e) {
  return 8 * (e / 2 + 2 * n) + e % 2;
}

/// Reduces over the four lanes that share rows of results; each gets the result.
__device__ __forceinline__ float quad_sum(float value) {
  value += shuffle_xor(value, 1);
  return value + shuffle_xor(value, 2);
}

/// The warp: to[i, c] = factor[...] * sum[i, c] for i < rows, through `room`, 16 rows of shared memory that
/// no other warp uses. factor: those of rows `row` and `row` + 8.
template <int kHead>
__device__ __forceinline__ void store_tile(const float (&sum)[kHead / 8][4], const float (&factor)[2],
                                           BF16* room, int rows, BF16* to, int64_t stride) {
  constexpr int kChunks = kHead / kPack;
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  sync_warp();
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    BF16* at = room + (lane / 4 + 8 * h) * kPaddedRow<kHead> + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < kHead / 8; ++n) {
      *reinterpret_cast<uint32_t*>(at + 8 * n) =
          to_bf16_pair(factor[h] * sum[n][2 * h], factor[h] * sum[n][2 * h + 1]);
    }
  }
  sync_warp();
  const int chunk = lane % kChunks * kPack;
  for (int i = lane / kChunks; i < rows; i += kWarp / kChunks) {
    *reinterpret_cast<uint4*>(to + i * stride + chunk) =
        *reinterpret_cast<const uint4*>(room + i * kPaddedRow<kHead> + chunk);
  }
}

}  // namespace ventris::cuda
