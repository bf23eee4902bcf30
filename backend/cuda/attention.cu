// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/attention.h"
#include "backend/cuda/attention_mma.cuh"
#include "backend/cuda/attention_tile.cuh"
#include "backend/ops/op_checks.h"

namespace ventris {
namespace {

using namespace cuda;

template <typename T>
struct AttentionForward {
  AttentionInputs<T> in;
  Rows<T> out;
  Rows<float> log_sum_exp;    // [heads, query_rows], or null
  Rows<float> probabilities;  // or null
  int64_t max_keys;
};

/// One block: one sentence and head; a warp holds kOwn queries at a time and writes their rows of `out` and
/// log_sum_exp. The softmax is online: sums are rescaled when a tile of keys has a larger maximum. Grid:
/// (sentences, heads); shared: two tiles, the block's queries, and their weights.
template <typename T, int kColumns>
__global__ void __launch_bounds__(kAttentionThreads) attend(AttentionForward<T> f) {
  const Place place(f.in);
  const auto& [warp, lane, head, span, stride] = place;
  float* keys = dynamic_shared<float>();
  float* values = keys + kTile * stride;
  float* queries = values + kTile * stride;
  float* weights = queries + kBlockOwn * stride + warp * kOwn * kTile;
  for (int first = 0; first < span.queries; first += kBlockOwn) {
    sync_threads();
    const int left = span.queries - first;
    stage(f.in.query, span.query_begin + first, left < kBlockOwn ? left : kBlockOwn, span.column, f.in.d_head,
          kBlockOwn, f.in.scale, queries, stride);
    float max[kOwn];
    float sum[kOwn] = {};
    float out[kOwn][kColumns] = {};
    for (float& m : max) m = -INFINITY;
    const int seen = f.in.limit(first + kBlockOwn - 1, span.keys);
    for (int tile = 0; tile < seen; tile += kTile) {
      const int rows = seen - tile < kTile ? seen - tile : kTile;
      sync_threads();
      stage(f.in.key, span.key_begin + tile, rows, span.column, f.in.d_head, kTile, 1.0F, keys, stride);
      stage(f.in.value, span.key_begin + tile, rows, span.column, f.in.d_head, kTile, 1.0F, values, stride);
      sync_threads();
      const int own = first + warp * kOwn;
      const uint32_t kept = place.kept(f.in.mask, own, tile);
#pragma unroll
      for (int q = 0; q < kOwn; ++q) {
        const int i = own + q;
        const int limit = f.in.limit(i, span.keys);
        if (i >= span.queries || limit <= tile) continue;  // the same for the whole warp
        const bool sees = tile + lane < limit;
        const float score =
            sees ? dot(queries + (warp * kOwn + q) * stride, keys + lane * stride, f.in.d_head) : -INFINITY;
        const float tile_max = warp_max(score);
        const float new_max = tile_max > max[q] ? tile_max : max[q];
        const float rescale = max[q] == -INFINITY ? 0.0F : expf(max[q] - new_max);
        const float p = sees ? expf(score - new_max) : 0.0F;
        max[q] = new_max;
        sum[q] = sum[q] * rescale + warp_sum(p);
        const uint32_t mine = shuffle(kept, 4 * q + lane / kPack);
        weights[q * kTile + lane] = (mine >> (lane % kPack) & 1U) != 0 ? p : 0.0F;
        sync_warp();
        for (float& o : out[q]) o *= rescale;
        add_weighted(weights + q * kTile, values, stride, f.in.d_head, out[q]);
      }
    }
#pragma unroll
    for (int q = 0; q < kOwn; ++q) {
      const int i = first + warp * kOwn + q;
      if (i >= span.queries) continue;
      const bool none = span.keys == 0;
      const int64_t t = span.query_begin + i;
      store_columns<T>(out[q], none ? 0.0F : f.in.mask.scale / sum[q], f.in.d_head,
                       f.out.row(t) + span.column);
      if (lane == 0 && f.log_sum_exp.data != nullptr) {
        f.log_sum_exp.row(head)[t] = none ? 0.0F : max[q] + logf(sum[q]);
      }
    }
  }
}

/// For pictures, not optimised for speed. One warp: P of every kAttentionWarps-th query of a sentence and
/// head. Grid as attend.
template <typename T>
__global__ void write_probabilities(AttentionForward<T> f) {
  const int head = static_cast<int>(blockIdx.y);
  const Span span = f.in.span(static_cast<int>(blockIdx.x), head);
  for (int i = static_cast<int>(threadIdx.x) / kWarp; i < span.queries; i += kAttentionWarps) {
    const int64_t t = span.query_begin + i;
    const int limit = f.in.limit(i, span.keys);
    const T* query = f.in.query.row(t) + span.column;
    for (int j = static_cast<int>(threadIdx.x) % kWarp; j < f.max_keys; j += kWarp) {
      float p = 0.0F;
      if (j < limit) {
        const T* key = f.in.key.row(span.key_begin + j) + span.column;
        float score = 0.0F;
        for (int c = 0; c < f.in.d_head; ++c) score += f.in.scale * load(query[c]) * load(key[c]);
        p = expf(score - f.log_sum_exp.row(head)[t]);
      }
      f.probabilities.row(t)[head * f.max_keys + j] = p;
    }
  }
}

template <typename T>
struct Decode {
  Rows<const T> query, key, value;
  const int32_t* key_rows;
  const int32_t* key_begin;
  int heads;
  int d_head;
  float scale;
  Rows<T> out;
  Rows<float> log_sum_exp;    // [hypotheses, heads]
  Rows<float> probabilities;  // [hypotheses, max_keys], or null
  int64_t max_keys;
};

/// q k of one cached key, by one lane.
template <typename T>
__device__ __forceinline__ float score_of(const Decode<T>& f, int64_t r, int head, int32_t row) {
  const T* query = f.query.row(r) + int64_t{head} * f.d_head;
  const T* key = f.key.row(row) + int64_t{head} * f.d_head;
  float score = 0.0F;
  for (int c = 0; c < f.d_head; ++c) score += f.scale * load(query[c]) * load(key[c]);
  return score;
}

/// One warp, which is the block: one hypothesis and head; lanes are keys for the scores, columns for the
/// values. Grid: (hypotheses, heads).
template <typename T, int kColumns>
__global__ void decode(Decode<T> f) {
  __shared__ float weights[kTile];
  const int lane = static_cast<int>(threadIdx.x);
  const int64_t r = blockIdx.x;
  const int head = static_cast<int>(blockIdx.y);
  const int32_t* rows = f.key_rows + f.key_begin[r];
  const int keys = f.key_begin[r + 1] - f.key_begin[r];
  float max = -INFINITY;
  float sum = 0.0F;
  float out[kColumns] = {};
  for (int tile = 0; tile < keys; tile += kTile) {
    const int count = keys - tile < kTile ? keys - tile : kTile;
    const float score = lane < count ? score_of(f, r, head, rows[tile + lane]) : -INFINITY;
    const float tile_max = warp_max(score);
    const float new_max = tile_max > max ? tile_max : max;
    const float rescale = max == -INFINITY ? 0.0F : expf(max - new_max);
    const float p = lane < count ? expf(score - new_max) : 0.0F;
    max = new_max;
    sum = sum * rescale + warp_sum(p);
    sync_warp();
    weights[lane] = p;
    sync_warp();
    for (float& o : out) o *= rescale;
    for (int j = 0; j < count; ++j) {
      const T* value = f.value.row(rows[tile + j]) + int64_t{head} * f.d_head;
#pragma unroll
      for (int k = 0; k < kColumns; ++k) {
        if (lane + k * kWarp < f.d_head) out[k] += weights[j] * load(value[lane + k * kWarp]);
      }
    }
  }
  store_columns<T>(out, keys == 0 ? 0.0F : 1.0F / sum, f.d_head, f.out.row(r) + int64_t{head} * f.d_head);
  if (lane == 0) f.log_sum_exp.row(r)[head] = keys == 0 ? 0.0F : max + logf(sum);
}

/// One warp, which is the block: the mean over heads of one hypothesis' probabilities. Grid: hypotheses.
template <typename T>
__global__ void decode_probabilities(Decode<T> f) {
  const int64_t r = blockIdx.x;
  const int32_t* rows = f.key_rows + f.key_begin[r];
  const int keys = f.key_begin[r + 1] - f.key_begin[r];
  for (int64_t j = threadIdx.x; j < f.max_keys; j += kWarp) {
    float mean = 0.0F;
    for (int head = 0; j < keys && head < f.heads; ++head) {
      mean += expf(score_of(f, r, head, rows[j]) - f.log_sum_exp.row(r)[head]) / static_cast<float>(f.heads);
    }
    f.probabilities.row(r)[j] = mean;
  }
}

}  // namespace

void attention_forward_cuda(Context& context, const AttentionForwardArgs& args) {
  cudaStream_t stream = stream_of(context);
  const int64_t d_head = args.query.cols / args.heads;
  const auto sums = static_cast<size_t>(args.heads * args.query.rows) * sizeof(float);
  need_scratch(context, sums + work_scratch_bytes(args));
  ArenaScope scope(context.scratch());
  AttentionForwardArgs with_sums = args;
  if (args.probabilities && !args.log_sum_exp) {
    with_sums.log_sum_exp = context.scratch().allocate(args.heads, args.query.rows, DType::kF32);
  }
  const bool on_tensor_cores = tensor_cores_take(d_head, args.query, args.key, args.value, args.out);
  if (on_tensor_cores) attention_forward_tensor_cuda(context, with_sums);
  if (on_tensor_cores && !args.probabilities) return;
  dispatch_device_dtype(args.query.dtype, "attention_forward", [&](auto tag) {
    using T = decltype(tag);
    const AttentionForward<T> f{.in = AttentionInputs<T>(args),
                                .out = rows_of<T>(args.out),
                                .log_sum_exp = rows_of<float>(with_sums.log_sum_exp),
                                .probabilities = rows_of<float>(args.probabilities),
                                .max_keys = args.probabilities.cols / args.heads};
    if (!on_tensor_cores) {
      const auto shared =
          static_cast<size_t>((2 * kTile + kBlockOwn) * (d_head + 1) + kBlockOwn * kTile) * sizeof(float);
      dispatch_columns(d_head, [&](auto columns) {
        launch({.name = "attend", .grid = grid_of(f.in), .block = kAttentionThreads, .shared_bytes = shared},
               stream, attend<T, decltype(columns)::value>, f);
      });
      launch_clear_rows<T>(stream, args.out, args.query_offsets + args.sentences);
    }
    if (args.probabilities) {
      launch({.name = "write_probabilities", .grid = grid_of(f.in), .block = kAttentionThreads}, stream,
             write_probabilities<T>, f);
    }
  });
}

void attention_decode_cuda(Context& context, const AttentionDecodeArgs& args) {
  cudaStream_t stream = stream_of(context);
  const int64_t d_head = args.query.cols / args.heads;
  need_scratch(context, static_cast<size_t>(args.heads * args.query.rows) * sizeof(float));
  ArenaScope scope(context.scratch());
  const Tensor log_sum_exp = context.scratch().allocate(args.query.rows, args.heads, DType::kF32);
  dispatch_device_dtype(args.query.dtype, "attention_decode", [&](auto tag) {
    using T = decltype(tag);
    const Decode<T> f{.query = rows_of<T>(args.query),
                      .key = rows_of<T>(args.key),
                      .value = rows_of<T>(args.value),
                      .key_rows = args.key_rows,
                      .key_begin = args.key_begin,
                      .heads = args.heads,
                      .d_head = static_cast<int>(d_head),
                      .scale = args.scale,
                      .out = rows_of<T>(args.out),
                      .log_sum_exp = rows_of<float>(log_sum_exp),
                      .probabilities = rows_of<float>(args.probabilities),
                      .max_keys = args.probabilities.cols};
    const auto hypotheses = static_cast<unsigned>(args.query.rows);
    dispatch_columns(d_head, [&](auto columns) {
      launch({.name = "decode", .grid = dim3(hypotheses, static_cast<unsigned>(args.heads)), .block = kWarp},
             stream, decode<T, decltype(columns)::value>, f);
    });
    if (args.probabilities) {
      launch({.name = "decode_probabilities", .grid = hypotheses, .block = kWarp}, stream,
             decode_probabilities<T>, f);
    }
  });
}

}  // namespace ventris
