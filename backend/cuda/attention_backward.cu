// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/attention.h"
#include "backend/cuda/attention_mma.cuh"
#include "backend/cuda/attention_tile.cuh"
#include "backend/ops/op_checks.h"

namespace ventris {
namespace {

using namespace cuda;

template <typename T>
struct AttentionGradients {
  AttentionInputs<T> in;
  Rows<const T> out, d_out;
  Rows<const float> log_sum_exp;  // [heads, query_rows]
  Rows<float> out_sum;            // [heads, query_rows]: D, the row sums of dO * O
  Rows<T> d_query, d_key, d_value;
};

/// dQ = scale * dS K with dS = P * (dP - D). One block: one sentence and head; a warp holds kOwn queries at a
/// time and writes their rows of d_query and their D. Grid: (sentences, heads); shared: two tiles, and the
/// block's queries, gradients and weights.
template <typename T, int kColumns>
__global__ void __launch_bounds__(kAttentionThreads) query_gradient(AttentionGradients<T> f) {
  const Place place(f.in);
  const auto& [warp, lane, head, span, stride] = place;
  float* keys = dynamic_shared<float>();
  float* values = keys + kTile * stride;
  float* queries = values + kTile * stride;
  float* d_outs = queries + kBlockOwn * stride;
  float* weights = d_outs + kBlockOwn * stride + warp * kOwn * kTile;
  for (int first = 0; first < span.queries; first += kBlockOwn) {
    const int left = span.queries - first;
    const int count = left < kBlockOwn ? left : kBlockOwn;
    const int own = first + warp * kOwn;
    sync_threads();
    stage(f.in.query, span.query_begin + first, count, span.column, f.in.d_head, kBlockOwn, f.in.scale,
          queries, stride);
    stage(f.d_out, span.query_begin + first, count, span.column, f.in.d_head, kBlockOwn, 1.0F, d_outs,
          stride);
    sync_threads();
    float out_sum[kOwn] = {};
    float log_sum_exp[kOwn] = {};
    float d_query[kOwn][kColumns] = {};
#pragma unroll
    for (int q = 0; q < kOwn; ++q) {
      if (own + q >= span.queries) continue;
      const int64_t t = span.query_begin + own + q;
      const T* out = f.out.row(t) + span.column;
      for (int c = lane; c < f.in.d_head; c += kWarp)
        out_sum[q] += d_outs[(warp * kOwn + q) * stride + c] * load(out[c]);
      out_sum[q] = warp_sum(out_sum[q]);
      log_sum_exp[q] = f.log_sum_exp.row(head)[t];
      if (lane == 0) f.out_sum.row(head)[t] = out_sum[q];
    }
    const int seen = f.in.limit(first + kBlockOwn - 1, span.keys);
    for (int tile = 0; tile < seen; tile += kTile) {
      const int rows = seen - tile < kTile ? seen - tile : kTile;
      sync_threads();
      stage(f.in.key, span.key_begin + tile, rows, span.column, f.in.d_head, kTile, 1.0F, keys, stride);
      stage(f.in.value, span.key_begin + tile, rows, span.column, f.in.d_head, kTile, 1.0F, values, stride);
      sync_threads();
      const uint32_t kept = place.kept(f.in.mask, own, tile);
#pragma unroll
      for (int q = 0; q < kOwn; ++q) {
        const int i = own + q;
        const int limit = f.in.limit(i, span.keys);
        if (i >= span.queries || limit <= tile) continue;  // the same for the whole warp
        const uint32_t mine = shuffle(kept, 4 * q + lane / kPack);
        float d_score = 0.0F;
        if (tile + lane < limit) {
          const int own_row = (warp * kOwn + q) * stride;
          const float p = expf(dot(queries + own_row, keys + lane * stride, f.in.d_head) - log_sum_exp[q]);
          const bool keep = (mine >> (lane % kPack) & 1U) != 0;
          const float d_p =
              keep ? f.in.mask.scale * dot(d_outs + own_row, values + lane * stride, f.in.d_head) : 0.0F;
          d_score = p * (d_p - out_sum[q]);
        }
        weights[q * kTile + lane] = d_score;
        sync_warp();
        add_weighted(weights + q * kTile, keys, stride, f.in.d_head, d_query[q]);
      }
    }
#pragma unroll
    for (int q = 0; q < kOwn; ++q) {
      if (own + q >= span.queries) continue;
      store_columns<T>(d_query[q], f.in.scale, f.in.d_head,
                       f.d_query.row(span.query_begin + own + q) + span.column);
    }
  }
}

/// dK = scale * dS^T Q and dV = (M * P)^T dO. As query_gradient with the sides exchanged: a warp holds kOwn
/// keys against tiles of queries, and writes their rows of d_key and d_value. Runs after it, as it reads D.
template <typename T, int kColumns>
__global__ void __launch_bounds__(kAttentionThreads) key_gradient(AttentionGradients<T> f) {
  const Place place(f.in);
  const auto& [warp, lane, head, span, stride] = place;
  float* queries = dynamic_shared<float>();
  float* d_outs = queries + kTile * stride;
  float* keys = d_outs + kTile * stride;
  float* values = keys + kBlockOwn * stride;
  float* weights = values + kBlockOwn * stride + warp * 2 * kTile;
  float* d_scores = weights + kTile;
  for (int first = 0; first < span.keys; first += kBlockOwn) {
    const int left = span.keys - first;
    const int count = left < kBlockOwn ? left : kBlockOwn;
    const int own = first + warp * kOwn;
    sync_threads();
    stage(f.in.key, span.key_begin + first, count, span.column, f.in.d_head, kBlockOwn, 1.0F, keys, stride);
    stage(f.in.value, span.key_begin + first, count, span.column, f.in.d_head, kBlockOwn, 1.0F, values,
          stride);
    float d_key[kOwn][kColumns] = {};
    float d_value[kOwn][kColumns] = {};
    for (int tile = f.in.causal ? first / kTile * kTile : 0; tile < span.queries; tile += kTile) {
      const int rows = span.queries - tile < kTile ? span.queries - tile : kTile;
      sync_threads();
      stage(f.in.query, span.query_begin + tile, rows, span.column, f.in.d_head, kTile, f.in.scale, queries,
            stride);
      stage(f.d_out, span.query_begin + tile, rows, span.column, f.in.d_head, kTile, 1.0F, d_outs, stride);
      sync_threads();
      const int64_t t = span.query_begin + tile + lane;
      const float log_sum_exp = lane < rows ? f.log_sum_exp.row(head)[t] : 0.0F;
      const float out_sum = lane < rows ? f.out_sum.row(head)[t] : 0.0F;
      uint32_t kept = 0xFFU;  // of this lane's query and the eight keys that include the warp's
      if (f.in.mask.threshold != 0) {
        kept = f.in.mask.kept(static_cast<uint32_t>(t), static_cast<uint32_t>(own / kPack),
                              static_cast<uint32_t>(head));
      }
#pragma unroll
      for (int k = 0; k < kOwn; ++k) {
        const int j = own + k;
        if (j >= span.keys) continue;  // the same for the whole warp
        float weight = 0.0F;
        float d_score = 0.0F;
        if (lane < rows && (!f.in.causal || tile + lane >= j)) {
          const int own_row = (warp * kOwn + k) * stride;
          const float p = expf(dot(queries + lane * stride, keys + own_row, f.in.d_head) - log_sum_exp);
          const float masked = (kept >> (j % kPack) & 1U) != 0 ? f.in.mask.scale : 0.0F;
          weight = masked * p;
          d_score = p * (masked * dot(d_outs + lane * stride, values + own_row, f.in.d_head) - out_sum);
        }
        sync_warp();
        weights[lane] = weight;
        d_scores[lane] = d_score;
        sync_warp();
        add_weighted(weights, d_outs, stride, f.in.d_head, d_value[k]);
        add_weighted(d_scores, queries, stride, f.in.d_head, d_key[k]);
      }
    }
#pragma unroll
    for (int k = 0; k < kOwn; ++k) {
      if (own + k >= span.keys) continue;
      const int64_t row = span.key_begin + own + k;
      store_columns<T>(d_key[k], 1.0F, f.in.d_head, f.d_key.row(row) + span.column);
      store_columns<T>(d_value[k], 1.0F, f.in.d_head, f.d_value.row(row) + span.column);
    }
  }
}

}  // namespace

void attention_backward_cuda(Context& context, const AttentionBackwardArgs& args) {
  const int64_t d_head = args.query.cols / args.heads;
  if (tensor_cores_take(d_head, args.query, args.key, args.value, args.out, args.d_out, args.d_query,
                        args.d_key, args.d_value)) {
    return attention_backward_tensor_cuda(context, args);
  }
  cudaStream_t stream = stream_of(context);
  need_scratch(context, static_cast<size_t>(args.heads * args.query.rows) * sizeof(float));
  ArenaScope scope(context.scratch());
  const Tensor out_sum = context.scratch().allocate(args.heads, args.query.rows, DType::kF32);
  dispatch_device_dtype(args.query.dtype, "attention_backward", [&](auto tag) {
    using T = decltype(tag);
    const AttentionGradients<T> f{.in = AttentionInputs<T>(args),
                                  .out = rows_of<T>(args.out),
                                  .d_out = rows_of<T>(args.d_out),
                                  .log_sum_exp = rows_of<float>(args.log_sum_exp),
                                  .out_sum = rows_of<float>(out_sum),
                                  .d_query = rows_of<T>(args.d_query),
                                  .d_key = rows_of<T>(args.d_key),
                                  .d_value = rows_of<T>(args.d_value)};
    const dim3 grid = grid_of(f.in);
    const auto shared =
        static_cast<size_t>(2 * (kTile + kBlockOwn) * (d_head + 1) + kBlockOwn * kTile) * sizeof(float);
    dispatch_columns(d_head, [&](auto columns) {
      constexpr int kColumns = decltype(columns)::value;
      launch({.name = "query_gradient", .grid = grid, .block = kAttentionThreads, .shared_bytes = shared},
             stream, query_gradient<T, kColumns>, f);
      launch({.name = "key_gradient", .grid = grid, .block = kAttentionThreads, .shared_bytes = shared},
             stream, key_gradient<T, kColumns>, f);
    });
    launch_clear_rows<T>(stream, args.d_query, args.query_offsets + args.sentences);
    launch_clear_rows<T>(stream, args.d_key, args.key_offsets + args.sentences);
    launch_clear_rows<T>(stream, args.d_value, args.key_offsets + args.sentences);
  });
}

}  // namespace ventris
