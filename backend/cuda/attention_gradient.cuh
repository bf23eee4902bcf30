// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cuda/attention_mma.cuh"

/// Shared by the kernels for the gradients of attention on tensor cores.
namespace ventris::cuda {

struct TensorBackward {
  AttentionInputs<BF16> in;
  Rows<const BF16> out, d_out;
  Rows<const float> log_sum_exp;  // [heads, query_rows]
  Rows<BF16> d_query, d_key, d_value;
  int64_t query_rows;
  int64_t key_rows;
  WorkLists work;
};

/// The tiles of a block in shared memory. Of weights, rows are queries and columns are keys. With less memory
/// M * P and dS take turns in one tile, and dS stays in registers meanwhile.
template <int kHead>
struct Tiles {
  static constexpr size_t bytes(bool less) {
    constexpr size_t kOperands = 4 * kTileElements<kHead>;
    constexpr size_t kWeights = kTileElements<kTileRows>;
    return sizeof(BF16) * (kOperands + (less ? kWeights : 2 * kWeights));
  }

  BF16* query = dynamic_shared<BF16>();
  BF16* key = query + kTileElements<kHead>;
  BF16* d_out = key + kTileElements<kHead>;
  BF16* value = d_out + kTileElements<kHead>;
  BF16* weight = value + kTileElements<kHead>;  // M * P

  /// dS
  template <bool kLess>
  __device__ __forceinline__ BF16* d_score() const {
    return kLess ? weight : weight + kTileElements<kTileRows>;
  }
};

/// Log-sum-exps of this lane's two rows of the warp's 16 queries, for powers of two; 0 after the last query.
__device__ __forceinline__ void load_log_sums(const TensorBackward& f, const Span& span, int own, int head,
                                              float (&log_sum)[2]) {
  for (int h = 0; h < 2; ++h) {
    const int i = own + static_cast<int>(threadIdx.x % kWarp) / 4 + 8 * h;
    log_sum[h] = i < span.queries ? kLog2E * f.log_sum_exp.row(head)[span.query_begin + i] : 0.0F;
  }
}

/// For 16 queries (the first is `own`) and `used` pairs of columns, the first of which is key `key`:
/// s: Q K^T, becomes P; d_p: dO V^T, becomes M * dP; kept: the bits of M. Zero if a query does not see the
/// key.
template <int kPairs>
__device__ __forceinline__ void weigh(const TensorBackward& f, const Span& span, int own, int key, int head,
                                      int used, const float (&log_sum)[2], float (&s)[2 * kPairs][4],
                                      float (&d_p)[2 * kPairs][4], uint32_t (&kept)[kPairs]) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const Mask& mask = f.in.mask;
  const float factor = f.in.scale * kLog2E;
  int limit[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int i = own + lane / 4 + 8 * h;
    limit[h] = i < span.queries ? f.in.limit(i, span.keys) - key : 0;
  }
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    kept[j] = ~0U;
    if (j >= used) continue;
    if (mask.threshold != 0) {
      kept[j] = pair_mask(mask, static_cast<uint32_t>(span.query_begin + own),
                          static_cast<uint32_t>(key / kPack + 2 * j), static_cast<uint32_t>(head));
    }
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float& p = s[2 * j + n][e];
        float& d = d_p[2 * j + n][e];
        const bool sees = 16 * j + 8 * n + lane % 4 * 2 + e % 2 < limit[e / 2];
        p = sees ? fast_exp2(factor * p - log_sum[e / 2]) : 0.0F;
        d = sees && (kept[j] >> mask_bit(n, e) & 1U) != 0 ? mask.scale * d : 0.0F;
      }
    }
  }
}

/// d_p := dS = P * (M * dP - D); s := M * P.
template <int kPairs>
__device__ __forceinline__ void differentiate(const Mask& mask, int used, const float (&d)[2],
                                              const uint32_t (&kept)[kPairs], float (&s)[2 * kPairs][4],
                                              float (&d_p)[2 * kPairs][4]) {
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    if (j >= used) continue;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float& p = s[2 * j + n][e];
        d_p[2 * j + n][e] = p * (d_p[2 * j + n][e] - d[e / 2]);
        p = (kept[j] >> mask_bit(n, e) & 1U) != 0 ? mask.scale * p : 0.0F;
      }
    }
  }
}

/// The warp: writes results as bf16 to its 16 rows of shared memory; `to` is the first column.
template <int kPairs>
__device__ __forceinline__ void keep_pairs(const float (&v)[2 * kPairs][4], int used, BF16* to, int stride) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  to += lane / 4 * stride + lane % 4 * 2;
#pragma unroll
  for (int n = 0; n < 2 * kPairs; ++n) {
    if (n / 2 >= used) continue;
    *reinterpret_cast<uint32_t*>(to + 8 * n) = to_bf16_pair(v[n][0], v[n][1]);
    *reinterpret_cast<uint32_t*>(to + 8 * stride + 8 * n) = to_bf16_pair(v[n][2], v[n][3]);
  }
}

/// The warp: sum[16 keys, kHead] += weights[queries, 16 keys]^T rows[queries, kHead] over 16-query blocks
/// [first, end). `weights`: at the first of the warp's keys.
template <int kHead, int kKeys>
__device__ __forceinline__ void multiply_by_queries(const BF16* weights, const BF16* rows, int first, int end,
                                                    float (&sum)[kHead / 8][4]) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  weights += (lane % 8 + lane / 16 * 8) * kPaddedRow<kKeys> + lane / 8 % 2 * 8;
#pragma unroll 1
  for (int j = first; j < end; ++j) {
    uint32_t a[4];
    load_matrices<true>(a, weights + j * 16 * kPaddedRow<kKeys>);
    multiply_rows<kHead>(a, rows + j * 16 * kPaddedRow<kHead>, sum);
  }
}

__device__ __forceinline__ int at_most_16(int rows) {
  return rows < kWarpRows ? rows : kWarpRows;
}

}  // namespace ventris::cuda
