// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cuda/attention_gradient.cuh"

/// Gradients of sentences with more than 64 queries or keys, by tiles. Scores are computed twice, once for
/// the gradient of the queries and once for that of the keys, so that no sum is shared by two blocks.
namespace ventris::cuda {

/// D = rowsum(dO * O) of this lane's two rows of the warp's 16 queries. `d_out`: their rows in shared memory.
template <int kHead>
__device__ __forceinline__ void row_products(const TensorBackward& f, const Span& span, int own,
                                             const BF16* d_out, float (&d)[2]) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  constexpr int kPacks = kHead / (4 * kPack);  // of a row, for each of its lanes
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int i = lane / 4 + 8 * h;
    d[h] = 0.0F;
    if (own + i < span.queries) {
      const BF16* out = f.out.row(span.query_begin + own + i) + span.column + lane % 4 * kPack;
      const BF16* own_d_out = d_out + i * kPaddedRow<kHead> + lane % 4 * kPack;
      Packed<BF16> ahead[kPacks];
#pragma unroll
      for (int p = 0; p < kPacks; ++p) ahead[p] = *reinterpret_cast<const Packed<BF16>*>(out + 4 * kPack * p);
#pragma unroll
      for (int p = 0; p < kPacks; ++p) {
        float a[kPack];
        float b[kPack];
        unpack(*reinterpret_cast<const Packed<BF16>*>(own_d_out + 4 * kPack * p), a);
        unpack(ahead[p], b);
        for (int k = 0; k < kPack; ++k) d[h] += a[k] * b[k];
      }
    }
    d[h] = quad_sum(d[h]);
  }
}

inline constexpr int kChunk = 16;  // keys at a time in the registers of a warp, in tiles of long sentences
inline constexpr int kChunkPairs = kChunk / 16;

/// dS and M * P, as differentiate leaves them, of the warp's 16 queries (the first is `own`) and the `used`
/// pairs of keys from `key` on, which are the rows from `row` on of the tiles of keys and values. s and d_p:
/// zeros before.
template <int kHead, int kPairs>
__device__ __forceinline__ void differentiate_chunk(const TensorBackward& f, const Tiles<kHead>& tiles,
                                                    const Span& span, int own, int key, int row, int head,
                                                    int used, const float (&log_sum)[2], const float (&d)[2],
                                                    float (&s)[2 * kPairs][4], float (&d_p)[2 * kPairs][4]) {
  constexpr int kRow = kPaddedRow<kHead>;
  const int own_row = static_cast<int>(threadIdx.x / kWarp) * kWarpRows;
  multiply_transposed<kHead, kPairs>(tiles.query + own_row * kRow, tiles.key + row * kRow, used, s);
  multiply_transposed<kHead, kPairs>(tiles.d_out + own_row * kRow, tiles.value + row * kRow, used, d_p);
  uint32_t kept[kPairs];
  weigh<kPairs>(f, span, own, key, head, used, log_sum, s, d_p, kept);
  differentiate<kPairs>(f.in.mask, used, d, kept, s, d_p);
}

/// The block: dQ of a tile of queries, against all tiles of keys that they see.
template <int kHead>
__device__ __forceinline__ void differentiate_queries(const TensorBackward& f, const Turn& turn,
                                                      const NextTurn& next) {
  const WorkItem& item = turn.item;
  const int head = turn.head;
  constexpr int kRow = kPaddedRow<kHead>;
  const Tiles<kHead> tiles;
  const WarpPlace<kTileRows> place;
  const AttentionInputs<BF16>& in = f.in;
  const Span span = item.span(head, kHead);
  const int own = item.first + place.first;
  const bool works = own < span.queries;
  const int left = span.queries - item.first;
  stage_tile<kHead, kTileRows>(in.query, span.query_begin + item.first, left, head, in.heads, tiles.query);
  stage_tile<kHead, kTileRows>(f.d_out, span.query_begin + item.first, left, head, in.heads, tiles.d_out);
  async_commit();
  next.begin();
  async_wait<0>();
  sync_threads();
  float log_sum[2] = {};
  float d[2] = {};
  if (works) {
    load_log_sums(f, span, own, head, log_sum);
    row_products<kHead>(f, span, own, tiles.d_out + place.first * kRow, d);
  }
  float d_query[kHead / 8][4] = {};
  const int seen = in.limit(item.first + kTileRows - 1, span.keys);
  const int own_seen = in.limit(own + kWarpRows - 1, span.keys);
  for (int tile = 0; tile < seen; tile += kTileRows) {
    sync_threads();
    stage_tile<kHead, kTileRows>(in.key, span.key_begin + tile, seen - tile, head, in.heads, tiles.key);
    stage_tile<kHead, kTileRows>(in.value, span.key_begin + tile, seen - tile, head, in.heads, tiles.value);
    async_commit();
    async_wait<0>();
    sync_threads();
    for (int row = 0; works && row < kTileRows && tile + row < own_seen; row += kChunk) {
      const int keys = own_seen - tile - row;
      const int used = pairs_of(keys < kChunk ? keys : kChunk);
      float s[2 * kChunkPairs][4] = {};
      float d_p[2 * kChunkPairs][4] = {};
      differentiate_chunk<kHead, kChunkPairs>(f, tiles, span, own, tile + row, row, head, used, log_sum, d, s,
                                              d_p);
#pragma unroll
      for (int j = 0; j < kChunkPairs; ++j) {
        if (j >= used) continue;
        uint32_t a[4];
        as_left(d_p[2 * j], d_p[2 * j + 1], a);
        multiply_rows<kHead>(a, tiles.key + (row + 16 * j) * kRow, d_query);
      }
    }
  }
  if (!works) return;
  store_tile<kHead>(d_query, {in.scale, in.scale}, tiles.query + place.first * kRow,
                    at_most_16(span.queries - own), f.d_query.row(span.query_begin + own) + span.column,
                    f.d_query.stride);
}

/// The block: dK and dV of a tile of keys, against all tiles of queries that see them. A warp has 16 queries
/// for M * P and dS, which go through shared memory, and 16 keys for the sums. kLess: as in Tiles; then all
/// keys of the tile are one chunk. The bits are the same.
template <int kHead, bool kLess>
__device__ __forceinline__ void differentiate_keys(const TensorBackward& f, const Turn& turn,
                                                   const NextTurn& next) {
  const WorkItem& item = turn.item;
  const int head = turn.head;
  constexpr int kRow = kPaddedRow<kHead>;
  constexpr int kWeightRow = kPaddedRow<kTileRows>;
  constexpr int kPairs = kLess ? kTileRows / 16 : kChunkPairs;
  const Tiles<kHead> tiles;
  BF16* const d_scores = tiles.template d_score<kLess>();
  const WarpPlace<kTileRows> place;
  const AttentionInputs<BF16>& in = f.in;
  const Span span = item.span(head, kHead);
  const int own_key = item.first + place.first;
  const int tile_keys = span.keys - item.first < kTileRows ? span.keys - item.first : kTileRows;
  if (span.queries > 0) {  // waited for with the first queries
    stage_tile<kHead, kTileRows>(in.key, span.key_begin + item.first, tile_keys, head, in.heads, tiles.key);
    stage_tile<kHead, kTileRows>(in.value, span.key_begin + item.first, tile_keys, head, in.heads,
                                 tiles.value);
  }
  next.begin();
  float d_key[kHead / 8][4] = {};
  float d_value[kHead / 8][4] = {};
  for (int tile = in.causal ? item.first : 0; tile < span.queries; tile += kTileRows) {
    const int left = span.queries - tile;
    stage_tile<kHead, kTileRows>(in.query, span.query_begin + tile, left, head, in.heads, tiles.query);
    stage_tile<kHead, kTileRows>(f.d_out, span.query_begin + tile, left, head, in.heads, tiles.d_out);
    async_commit();
    async_wait<0>();
    sync_threads();
    const int own = tile + place.first;
    float d_p[2 * kPairs][4];
    int used = 0;
    if (own < span.queries) {
      float log_sum[2];
      float d[2];
      load_log_sums(f, span, own, head, log_sum);
      row_products<kHead>(f, span, own, tiles.d_out + place.first * kRow, d);
      const int own_seen = in.limit(own + kWarpRows - 1, item.first + tile_keys) - item.first;
      for (int row = 0; row < own_seen; row += 16 * kPairs) {
        used = pairs_of(own_seen - row < 16 * kPairs ? own_seen - row : 16 * kPairs);
        float s[2 * kPairs][4] = {};
#pragma unroll
        for (auto& n : d_p) n[0] = n[1] = n[2] = n[3] = 0.0F;
        differentiate_chunk<kHead, kPairs>(f, tiles, span, own, item.first + row, row, head, used, log_sum, d,
                                           s, d_p);
        const int at = place.first * kWeightRow + row;
        keep_pairs<kPairs>(s, used, tiles.weight + at, kWeightRow);
        if constexpr (!kLess) keep_pairs<kPairs>(d_p, used, d_scores + at, kWeightRow);
      }
    }
    sync_threads();
    const bool has_keys = place.first < tile_keys;
    const int first_query = in.causal && tile == item.first ? place.warp : 0;
    const int end = pairs_of(left < kTileRows ? left : kTileRows);
    if (has_keys) {
      multiply_by_queries<kHead, kTileRows>(tiles.weight + place.first, tiles.d_out, first_query, end,
                                            d_value);
    }
    if constexpr (kLess) {
      sync_threads();
      keep_pairs<kPairs>(d_p, used, d_scores + place.first * kWeightRow, kWeightRow);
      sync_threads();
    }
    if (has_keys) {
      multiply_by_queries<kHead, kTileRows>(d_scores + place.first, tiles.query, first_query, end, d_key);
    }
    sync_threads();
  }
  if (place.first >= tile_keys) return;
  const int rows = at_most_16(span.keys - own_key);
  const int64_t t = span.key_begin + own_key;
  BF16* room = tiles.query + place.first * kRow;
  store_tile<kHead>(d_value, {1.0F, 1.0F}, room, rows, f.d_value.row(t) + span.column, f.d_value.stride);
  store_tile<kHead>(d_key, {in.scale, in.scale}, room, rows, f.d_key.row(t) + span.column, f.d_key.stride);
}

}  // namespace ventris::cuda
