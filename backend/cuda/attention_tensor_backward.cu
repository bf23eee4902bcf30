// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/attention.h"
#include "backend/cuda/attention_long.cuh"
#include "backend/cuda/resident_blocks.h"
#include "backend/device/context_cuda.h"
#include "backend/ops/op_checks.h"

namespace ventris {
namespace {

using namespace cuda;

/// The block: all gradients of a sentence of at most kTile queries and keys, for the heads from `head` on. A
/// warp first has 16 queries: it leaves M * P and dS in shared memory, with D = rowsum(M * P * dP) summed in
/// registers. Then it has 16 keys, for dV and dK, and 16 queries again, for dQ. `value` is no longer needed
/// then: results are written through it. kLess: as in Tiles; the bits are the same.
template <int kHead, int kTile, bool kLess>
__device__ __forceinline__ void differentiate_sentence(const TensorBackward& f, const Turn& turn,
                                                       const NextTurn& next) {
  const WorkItem& item = turn.item;
  const int head = turn.head;
  constexpr int kPairs = kTile / 16;
  constexpr int kRow = kPaddedRow<kHead>;
  constexpr int kWeightRow = kPaddedRow<kTile>;
  const Tiles<kHead> tiles;
  BF16* const d_scores = tiles.template d_score<kLess>();
  const WarpPlace<kTile> place;
  const AttentionInputs<BF16>& in = f.in;
  const Span span = item.span(head + place.head, kHead);
  const int own = place.first;
  const int own_row = place.warp * kWarpRows;
  const int head_row = place.head * kTile;
  const bool there = head + place.head < in.heads;
  const int left = in.limit(own + kWarpRows - 1, span.keys);
  const int used = there && own < span.queries ? pairs_of(left) : 0;

  stage_tile<kHead, kTile>(in.query, span.query_begin, span.queries, head, in.heads, tiles.query);
  stage_tile<kHead, kTile>(in.key, span.key_begin, span.keys, head, in.heads, tiles.key);
  async_commit();
  stage_tile<kHead, kTile>(f.d_out, span.query_begin, span.queries, head, in.heads, tiles.d_out);
  stage_tile<kHead, kTile>(in.value, span.key_begin, span.keys, head, in.heads, tiles.value);
  async_commit();
  float log_sum[2] = {};
  if (used > 0) load_log_sums(f, span, own, head + place.head, log_sum);
  next.begin();
  async_wait<1>();
  sync_threads();
  float s[2 * kPairs][4] = {};
  float d_p[2 * kPairs][4] = {};
  if (used > 0) {
    multiply_transposed<kHead, kPairs>(tiles.query + own_row * kRow, tiles.key + head_row * kRow, used, s);
  }
  async_wait<0>();
  sync_threads();
  if (used > 0) {
    multiply_transposed<kHead, kPairs>(tiles.d_out + own_row * kRow, tiles.value + head_row * kRow, used,
                                       d_p);
    uint32_t kept[kPairs];
    weigh<kPairs>(f, span, own, 0, head + place.head, used, log_sum, s, d_p, kept);
    float d[2] = {};
#pragma unroll
    for (int n = 0; n < 2 * kPairs; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) d[e / 2] += n / 2 < used ? s[n][e] * d_p[n][e] : 0.0F;
    }
    d[0] = quad_sum(d[0]);
    d[1] = quad_sum(d[1]);
    differentiate<kPairs>(in.mask, used, d, kept, s, d_p);
    keep_pairs<kPairs>(s, used, tiles.weight + own_row * kWeightRow, kWeightRow);
    if constexpr (!kLess) keep_pairs<kPairs>(d_p, used, d_scores + own_row * kWeightRow, kWeightRow);
  }
  sync_threads();
  BF16* room = tiles.value + own_row * kRow;
  const bool has_keys = there && own < span.keys;
  const int first = in.causal ? own / 16 : 0;
  const int end = pairs_of(span.queries);
  const int rows = at_most_16(span.keys - own);
  const int64_t t = span.key_begin + own;
  const int weights = head_row * kWeightRow + own;
  if (has_keys) {
    float sum[kHead / 8][4] = {};
    multiply_by_queries<kHead, kTile>(tiles.weight + weights, tiles.d_out + head_row * kRow, first, end, sum);
    store_tile<kHead>(sum, {1.0F, 1.0F}, room, rows, f.d_value.row(t) + span.column, f.d_value.stride);
  }
  if constexpr (kLess) {
    sync_threads();
    keep_pairs<kPairs>(d_p, used, d_scores + own_row * kWeightRow, kWeightRow);
    sync_threads();
  }
  if (has_keys) {
    float sum[kHead / 8][4] = {};
    multiply_by_queries<kHead, kTile>(d_scores + weights, tiles.query + head_row * kRow, first, end, sum);
    store_tile<kHead>(sum, {in.scale, in.scale}, room, rows, f.d_key.row(t) + span.column, f.d_key.stride);
  }
  if (there && own < span.queries) {
    float sum[kHead / 8][4] = {};
#pragma unroll 1
    for (int j = 0; j < used; ++j) {
      uint32_t a[4];
      load_matrices<false>(
          a, d_scores + (own_row + place.lane % 16) * kWeightRow + place.lane / 16 * 8 + 16 * j);
      multiply_rows<kHead>(a, tiles.key + (head_row + 16 * j) * kRow, sum);
    }
    store_tile<kHead>(sum, {in.scale, in.scale}, room, at_most_16(span.queries - own),
                      f.d_query.row(span.query_begin + own) + span.column, f.d_query.stride);
  }
}

/// Blocks draw pieces of work, the longest first, and write their rows of d_query, d_key and d_value; then
/// they clear the rows past the last token. Shared: Tiles.
template <int kHead, bool kLess>
__device__ __forceinline__ void take_gradient_turns(const TensorBackward& f) {
  enum Kind { kKeys, kQueries, kAtMost64, kAtMost32, kAtMost16, kQueryPadding, kKeyPadding, kKinds };
  __shared__ TurnKind kinds[kKinds];
  const int32_t* last_query = f.in.query_offsets + f.in.sentences;
  const int32_t* last_key = f.in.key_offsets + f.in.sentences;
  const int heads = f.in.heads;
  if (threadIdx.x == 0) {
    kinds[kKeys] = kind_of<64>(f.work, kKeyTiles, heads);
    kinds[kQueries] = kind_of<64>(f.work, kQueryTiles, heads);
    kinds[kAtMost64] = kind_of<64>(f.work, kSentences64, heads);
    kinds[kAtMost32] = kind_of<32>(f.work, kSentences32, heads);
    kinds[kAtMost16] = kind_of<16>(f.work, kSentences16, heads);
    kinds[kQueryPadding] = kind_of_numbers(padding_tiles(f.query_rows, *last_query));
    kinds[kKeyPadding] = kind_of_numbers(padding_tiles(f.key_rows, *last_key));
  }
  take_turns(f.work.ticket, kinds, [&](const Turn& turn, const NextTurn& next) {
    if (turn.kind == kKeys) {
      differentiate_keys<kHead, kLess>(f, turn, next);
    } else if (turn.kind == kQueries) {
      differentiate_queries<kHead>(f, turn, next);
    } else if (turn.kind == kAtMost64) {
      differentiate_sentence<kHead, 64, kLess>(f, turn, next);
    } else if (turn.kind == kAtMost32) {
      differentiate_sentence<kHead, 32, kLess>(f, turn, next);
    } else if (turn.kind == kAtMost16) {
      differentiate_sentence<kHead, 16, kLess>(f, turn, next);
    } else {
      next.begin();
      if (turn.kind == kQueryPadding) {
        clear_padding(f.d_query, f.query_rows, heads * kHead, *last_query, turn.head);
      } else {
        clear_padding(f.d_key, f.key_rows, heads * kHead, *last_key, turn.head);
        clear_padding(f.d_value, f.key_rows, heads * kHead, *last_key, turn.head);
      }
    }
  });
}

template <int kHead>
__global__ void __launch_bounds__(kTensorThreads, kHead == 128 ? 2 : 4)
    gradients_on_tensor_cores(TensorBackward f) {
  take_gradient_turns<kHead, false>(f);
}
/// For devices that have too little shared memory for two blocks of the other (resident_blocks.h).
template <int kHead>
__global__ void __launch_bounds__(kTensorThreads, 2) gradients_in_less_memory(TensorBackward f) {
  take_gradient_turns<kHead, true>(f);
}

}  // namespace

void attention_backward_tensor_cuda(Context& context, const AttentionBackwardArgs& args) {
  need_scratch(context, work_scratch_bytes(args));
  ArenaScope scope(context.scratch());
  const TensorBackward f{.in = AttentionInputs<BF16>(args),
                         .out = rows_of<BF16>(args.out),
                         .d_out = rows_of<BF16>(args.d_out),
                         .log_sum_exp = rows_of<float>(args.log_sum_exp),
                         .d_query = rows_of<BF16>(args.d_query),
                         .d_key = rows_of<BF16>(args.d_key),
                         .d_value = rows_of<BF16>(args.d_value),
                         .query_rows = args.query.rows,
                         .key_rows = args.key.rows,
                         .work = work_of(context, args)};
  dispatch_head(f.in.d_head, [&](auto head) {
    constexpr int kHead = decltype(head)::value;
    const auto launch_turns = [&](const char* name, bool less, auto kernel) {
      launch_resident(context,
                      {.name = name, .block = kTensorThreads, .shared_bytes = Tiles<kHead>::bytes(less)},
                      max_tiles(args) * args.heads, kernel, f);
    };
    if (keeps_less(context.cuda().shared_bytes, Tiles<kHead>::bytes(false), Tiles<kHead>::bytes(true))) {
      launch_turns("gradients_in_less_memory", true, gradients_in_less_memory<kHead>);
    } else {
      launch_turns("gradients_on_tensor_cores", false, gradients_on_tensor_cores<kHead>);
    }
  });
}

}  // namespace ventris
