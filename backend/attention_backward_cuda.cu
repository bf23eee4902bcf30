#include "backend/attention_cuda.h"
#include "backend/cuda/attention_tile.cuh"
#include "backend/op_checks.h"

namespace ventris {
namespace {

using namespace cuda;

template <typename T>
struct Backward {
  Rows<const T> query, key, value, out, d_out;
  Rows<const float> log_sum_exp;  // [heads, query_rows]
  Rows<float> out_sum;            // [heads, query_rows]: D, the row sums of dO * O
  const int32_t* query_offsets;
  const int32_t* key_offsets;
  int d_head;
  bool causal;
  float scale;
  Mask mask;
  Rows<T> d_query, d_key, d_value;
};

/// dQ = scale * dS K with dS = P * (dP - D). One block: one sentence and head; a warp holds kOwn queries at a
/// time and writes their rows of d_query and their D. Grid: (sentences, heads); shared: two tiles, and the
/// block's queries, gradients and weights.
template <typename T, int kColumns>
__global__ void __launch_bounds__(kAttentionThreads) query_gradient(Backward<T> f) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int head = static_cast<int>(blockIdx.y);
  const Span span = span_of(f.query_offsets, f.key_offsets, static_cast<int>(blockIdx.x), head, f.d_head);
  const int stride = f.d_head + 1;
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
    stage(f.query, span.query_begin + first, count, span.column, f.d_head, kBlockOwn, f.scale, queries,
          stride);
    stage(f.d_out, span.query_begin + first, count, span.column, f.d_head, kBlockOwn, 1.0F, d_outs, stride);
    sync_threads();
    float out_sum[kOwn] = {};
    float log_sum_exp[kOwn] = {};
    float d_query[kOwn][kColumns] = {};
#pragma unroll
    for (int q = 0; q < kOwn; ++q) {
      if (own + q >= span.queries) continue;
      const int64_t t = span.query_begin + own + q;
      const T* out = f.out.row(t) + span.column;
      for (int c = lane; c < f.d_head; c += kWarp)
        out_sum[q] += d_outs[(warp * kOwn + q) * stride + c] * load(out[c]);
      out_sum[q] = warp_sum(out_sum[q]);
      log_sum_exp[q] = f.log_sum_exp.row(head)[t];
      if (lane == 0) f.out_sum.row(head)[t] = out_sum[q];
    }
    const int seen = f.causal && first + kBlockOwn < span.keys ? first + kBlockOwn : span.keys;
    for (int tile = 0; tile < seen; tile += kTile) {
      const int rows = seen - tile < kTile ? seen - tile : kTile;
      sync_threads();
      stage(f.key, span.key_begin + tile, rows, span.column, f.d_head, kTile, 1.0F, keys, stride);
      stage(f.value, span.key_begin + tile, rows, span.column, f.d_head, kTile, 1.0F, values, stride);
      sync_threads();
      uint32_t kept = 0xFFU;  // lanes 4 q + b: the mask of query q and the eight keys of block b
      if (f.mask.threshold != 0) {
        kept = f.mask.kept(static_cast<uint32_t>(span.query_begin + own + lane / 4 % kOwn),
                           static_cast<uint32_t>(tile / kPack + lane % 4), static_cast<uint32_t>(head));
      }
#pragma unroll
      for (int q = 0; q < kOwn; ++q) {
        const int i = own + q;
        const int limit = f.causal && i + 1 < span.keys ? i + 1 : span.keys;
        if (i >= span.queries || limit <= tile) continue;  // the same for the whole warp
        const uint32_t mine = shuffle(kept, 4 * q + lane / kPack);
        float d_score = 0.0F;
        if (tile + lane < limit) {
          const int own_row = (warp * kOwn + q) * stride;
          const float p = expf(dot(queries + own_row, keys + lane * stride, f.d_head) - log_sum_exp[q]);
          const bool keep = (mine >> (lane % kPack) & 1U) != 0;
          const float d_p =
              keep ? f.mask.scale * dot(d_outs + own_row, values + lane * stride, f.d_head) : 0.0F;
          d_score = p * (d_p - out_sum[q]);
        }
        weights[q * kTile + lane] = d_score;
        sync_warp();
        add_weighted(weights + q * kTile, keys, stride, f.d_head, d_query[q]);
      }
    }
#pragma unroll
    for (int q = 0; q < kOwn; ++q) {
      if (own + q >= span.queries) continue;
      store_columns<T>(d_query[q], f.scale, f.d_head,
                       f.d_query.row(span.query_begin + own + q) + span.column);
    }
  }
}

/// dK = scale * dS^T Q and dV = (M * P)^T dO. As query_gradient with the sides changed: a warp holds kOwn
/// keys against tiles of queries, and writes their rows of d_key and d_value. Runs after it, as it reads D.
template <typename T, int kColumns>
__global__ void __launch_bounds__(kAttentionThreads) key_gradient(Backward<T> f) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int head = static_cast<int>(blockIdx.y);
  const Span span = span_of(f.query_offsets, f.key_offsets, static_cast<int>(blockIdx.x), head, f.d_head);
  const int stride = f.d_head + 1;
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
    stage(f.key, span.key_begin + first, count, span.column, f.d_head, kBlockOwn, 1.0F, keys, stride);
    stage(f.value, span.key_begin + first, count, span.column, f.d_head, kBlockOwn, 1.0F, values, stride);
    float d_key[kOwn][kColumns] = {};
    float d_value[kOwn][kColumns] = {};
    for (int tile = f.causal ? first / kTile * kTile : 0; tile < span.queries; tile += kTile) {
      const int rows = span.queries - tile < kTile ? span.queries - tile : kTile;
      sync_threads();
      stage(f.query, span.query_begin + tile, rows, span.column, f.d_head, kTile, f.scale, queries, stride);
      stage(f.d_out, span.query_begin + tile, rows, span.column, f.d_head, kTile, 1.0F, d_outs, stride);
      sync_threads();
      const int64_t t = span.query_begin + tile + lane;
      const float log_sum_exp = lane < rows ? f.log_sum_exp.row(head)[t] : 0.0F;
      const float out_sum = lane < rows ? f.out_sum.row(head)[t] : 0.0F;
      uint32_t kept = 0xFFU;  // of this lane's query and the eight keys among which the warp's are
      if (f.mask.threshold != 0) {
        kept = f.mask.kept(static_cast<uint32_t>(t), static_cast<uint32_t>(own / kPack),
                           static_cast<uint32_t>(head));
      }
#pragma unroll
      for (int k = 0; k < kOwn; ++k) {
        const int j = own + k;
        if (j >= span.keys) continue;  // the same for the whole warp
        float weight = 0.0F;
        float d_score = 0.0F;
        if (lane < rows && (!f.causal || tile + lane >= j)) {
          const int own_row = (warp * kOwn + k) * stride;
          const float p = expf(dot(queries + lane * stride, keys + own_row, f.d_head) - log_sum_exp);
          const float masked = (kept >> (j % kPack) & 1U) != 0 ? f.mask.scale : 0.0F;
          weight = masked * p;
          d_score = p * (masked * dot(d_outs + lane * stride, values + own_row, f.d_head) - out_sum);
        }
        sync_warp();
        weights[lane] = weight;
        d_scores[lane] = d_score;
        sync_warp();
        add_weighted(weights, d_outs, stride, f.d_head, d_value[k]);
        add_weighted(d_scores, queries, stride, f.d_head, d_key[k]);
      }
    }
#pragma unroll
    for (int k = 0; k < kOwn; ++k) {
      if (own + k >= span.keys) continue;
      const int64_t row = span.key_begin + own + k;
      store_columns<T>(d_key[k], 1.0F, f.d_head, f.d_key.row(row) + span.column);
      store_columns<T>(d_value[k], 1.0F, f.d_head, f.d_value.row(row) + span.column);
    }
  }
}

}  // namespace

void attention_backward_cuda(Context& context, const AttentionBackwardArgs& args) {
  cudaStream_t stream = stream_of(context);
  const int64_t d_head = args.query.cols / args.heads;
  need_scratch(context, static_cast<size_t>(args.heads * args.query.rows) * sizeof(float));
  ArenaScope scope(context.scratch());
  const Tensor out_sum = context.scratch().allocate(args.heads, args.query.rows, DType::kF32);
  dispatch_device_dtype(args.query.dtype, "attention_backward", [&](auto tag) {
    using T = decltype(tag);
    const Backward<T> f{.query = rows_of<T>(args.query),
                        .key = rows_of<T>(args.key),
                        .value = rows_of<T>(args.value),
                        .out = rows_of<T>(args.out),
                        .d_out = rows_of<T>(args.d_out),
                        .log_sum_exp = rows_of<float>(args.log_sum_exp),
                        .out_sum = rows_of<float>(out_sum),
                        .query_offsets = args.query_offsets,
                        .key_offsets = args.key_offsets,
                        .d_head = static_cast<int>(d_head),
                        .causal = args.causal,
                        .scale = args.scale,
                        .mask = Mask(args.dropout),
                        .d_query = rows_of<T>(args.d_query),
                        .d_key = rows_of<T>(args.d_key),
                        .d_value = rows_of<T>(args.d_value)};
    const dim3 grid(static_cast<unsigned>(args.sentences), static_cast<unsigned>(args.heads));
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
