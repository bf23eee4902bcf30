// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/attention.h"
#include "backend/cuda/attention_mma.cuh"
#include "backend/ops/op_checks.h"

namespace ventris {
namespace {

using namespace cuda;

struct AttentionTensorForward {
  AttentionInputs<BF16> in;
  Rows<BF16> out;
  Rows<float> log_sum_exp;  // [heads, query_rows], or null
  int64_t query_rows;
  WorkLists work;
};

/// Reduces over the four lanes that share rows of results; each gets the result.
__device__ __forceinline__ float quad_max(float value) {
  value = fmaxf(value, shuffle_xor(value, 1));
  return fmaxf(value, shuffle_xor(value, 2));
}

/// Scores to weights, in place, for 16 queries (the first is `own`) and the keys from `key` on:
/// s := exp2(s - max), masked; max, sum: of this lane's two rows so far, `sum` of this lane's columns alone.
/// Returns in `rescale` the factor of earlier sums.
template <int kPairs>
__device__ __forceinline__ void weigh(const AttentionTensorForward& f, const Span& span, int own, int key,
                                      int head, int used, float (&s)[2 * kPairs][4], float (&max)[2],
                                      float (&sum)[2], float (&rescale)[2]) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const float factor = f.in.scale * kLog2E;
  const int limit[2] = {f.in.limit(own + lane / 4, span.keys) - key,
                        f.in.limit(own + lane / 4 + 8, span.keys) - key};
  float new_max[2] = {max[0], max[1]};
#pragma unroll
  for (int n = 0; n < 2 * kPairs; ++n) {
    if (n / 2 >= used) continue;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      s[n][e] = 8 * n + lane % 4 * 2 + e % 2 < limit[e / 2] ? factor * s[n][e] : -INFINITY;
      new_max[e / 2] = fmaxf(new_max[e / 2], s[n][e]);
    }
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    new_max[h] = quad_max(new_max[h]);
    rescale[h] = fast_exp2(max[h] - new_max[h]);
    max[h] = new_max[h];
    sum[h] *= rescale[h];
  }
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    if (j >= used) continue;
    uint32_t kept = ~0U;
    if (f.in.mask.threshold != 0) {
      kept = pair_mask(f.in.mask, static_cast<uint32_t>(span.query_begin + own),
                       static_cast<uint32_t>(key / kPack + 2 * j), static_cast<uint32_t>(head));
    }
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float p = fast_exp2(s[2 * j + n][e] - max[e / 2]);
        sum[e / 2] += p;
        s[2 * j + n][e] = (kept >> mask_bit(n, e) & 1U) != 0 ? p : 0.0F;
      }
    }
  }
}

/// The block: one tile of queries of a sentence, for the heads from `head` on. Keys and values are read in
/// tiles of kTile, more than one only for the longest sentences; while one is used, the next is copied. The
/// softmax is online.
template <int kHead, int kTile>
__device__ __forceinline__ void attend_tile(const AttentionTensorForward& f, const Turn& turn,
                                            const NextTurn& next_turn, BF16* shared) {
  const WorkItem& item = turn.item;
  const int head = turn.head;
  constexpr int kPairs = kTile / 16;
  const WarpPlace<kTile> place;
  const AttentionInputs<BF16>& in = f.in;
  const Span span = item.span(head + place.head, kHead);
  BF16* queries = shared;
  BF16* keys = queries + kTileElements<kHead>;
  BF16* values = keys + kTileElements<kHead>;
  const BF16* head_keys = keys + place.head * kTile * kPaddedRow<kHead>;
  const BF16* head_values = values + place.head * kTile * kPaddedRow<kHead>;
  BF16* own_queries = queries + place.warp * kWarpRows * kPaddedRow<kHead>;
  const int own = item.first + place.first;
  const bool works = own < span.queries && head + place.head < in.heads;
  const int seen = in.limit(item.first + kTile - 1, span.keys);  // by the block
  const int own_seen = in.limit(own + kWarpRows - 1, span.keys);
  float max[2] = {-INFINITY, -INFINITY};
  float sum[2] = {};
  float out[kHead / 8][4] = {};
  if (seen > 0) {
    stage_tile<kHead, kTile>(in.query, span.query_begin + item.first, span.queries - item.first, head,
                             in.heads, queries);
    stage_tile<kHead, kTile>(in.key, span.key_begin, seen, head, in.heads, keys);
    async_commit();
    stage_tile<kHead, kTile>(in.value, span.key_begin, seen, head, in.heads, values);
    async_commit();
  }
  next_turn.begin();
  for (int key = 0; key < seen; key += kTile) {
    const int next = key + kTile;
    const int left = own_seen - key < kTile ? own_seen - key : kTile;
    const int used = works && left > 0 ? pairs_of(left) : 0;
    float s[2 * kPairs][4] = {};
    float rescale[2];
    async_wait<1>();
    sync_threads();
    if (used > 0) multiply_transposed<kHead, kPairs>(own_queries, head_keys, used, s);
    if (next < seen) {
      sync_threads();
      stage_tile<kHead, kTile>(in.key, span.key_begin + next, seen - next, head, in.heads, keys);
    }
    async_commit();
    if (used > 0) weigh<kPairs>(f, span, own, key, head + place.head, used, s, max, sum, rescale);
    async_wait<1>();
    sync_threads();
    if (used > 0) {
#pragma unroll
      for (int n = 0; n < kHead / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) out[n][e] *= rescale[e / 2];
      }
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        if (j >= used) continue;
        uint32_t a[4];
        as_left(s[2 * j], s[2 * j + 1], a);
        multiply_rows<kHead>(a, head_values + j * 16 * kPaddedRow<kHead>, out);
      }
    }
    if (next < seen) {
      sync_threads();
      stage_tile<kHead, kTile>(in.value, span.key_begin + next, seen - next, head, in.heads, values);
    }
    async_commit();
  }
  if (!works) return;
  const int rows = span.queries - own < kWarpRows ? span.queries - own : kWarpRows;
  const int64_t t = span.query_begin + own;
  float factor[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float total = quad_sum(sum[h]);
    factor[h] = seen > 0 ? in.mask.scale / total : 0.0F;
    const int i = place.row + 8 * h;
    if (place.lane % 4 == 0 && i < rows && f.log_sum_exp.data != nullptr) {
      f.log_sum_exp.row(head + place.head)[t + i] = seen > 0 ? kLn2 * (max[h] + log2f(total)) : 0.0F;
    }
  }
  store_tile<kHead>(out, factor, own_queries, rows, f.out.row(t) + span.column, f.out.stride);
}

/// Blocks draw tiles of queries, the longest first, and write their rows of `out` and log_sum_exp; then they
/// clear the rows past the last token. Shared: a tile of queries, of keys and of values.
template <int kHead>
__global__ void __launch_bounds__(kTensorThreads, kHead == 128 ? 3 : 4)
    attend_on_tensor_cores(AttentionTensorForward f) {
  enum Kind { kTiles, kAtMost64, kAtMost32, kAtMost16, kPadding, kKinds };
  __shared__ TurnKind kinds[kKinds];
  BF16* shared = dynamic_shared<BF16>();
  const int32_t* last = f.in.query_offsets + f.in.sentences;
  const int heads = f.in.heads;
  if (threadIdx.x == 0) {
    kinds[kTiles] = kind_of<64>(f.work, kQueryTiles, heads);
    kinds[kAtMost64] = kind_of<64>(f.work, kSentences64, heads);
    kinds[kAtMost32] = kind_of<32>(f.work, kSentences32, heads);
    kinds[kAtMost16] = kind_of<16>(f.work, kSentences16, heads);
    kinds[kPadding] = kind_of_numbers(padding_tiles(f.query_rows, *last));
  }
  take_turns(f.work.ticket, kinds, [&](const Turn& turn, const NextTurn& next) {
    if (turn.kind <= kAtMost64) {
      attend_tile<kHead, 64>(f, turn, next, shared);
    } else if (turn.kind == kAtMost32) {
      attend_tile<kHead, 32>(f, turn, next, shared);
    } else if (turn.kind == kAtMost16) {
      attend_tile<kHead, 16>(f, turn, next, shared);
    } else {
      next.begin();
      clear_padding(f.out, f.query_rows, heads * kHead, *last, turn.head);
    }
  });
}

}  // namespace

void attention_forward_tensor_cuda(Context& context, const AttentionForwardArgs& args) {
  const AttentionTensorForward f{.in = AttentionInputs<BF16>(args),
                                 .out = rows_of<BF16>(args.out),
                                 .log_sum_exp = rows_of<float>(args.log_sum_exp),
                                 .query_rows = args.query.rows,
                                 .work = work_of(context, args)};
  dispatch_head(f.in.d_head, [&](auto head) {
    constexpr int kHead = decltype(head)::value;
    launch_resident(context,
                    {.name = "attend_on_tensor_cores",
                     .block = kTensorThreads,
                     .shared_bytes = 3 * kTileElements<kHead> * sizeof(BF16)},
                    max_tiles(args) * args.heads, attend_on_tensor_cores<kHead>, f);
  });
}

}  // namespace ventris
