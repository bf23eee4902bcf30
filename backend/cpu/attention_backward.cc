// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/attention.h"

namespace ventris {
namespace {

/// One thread's memory. A tile is kQueryTile queries.
template <typename R>
struct BackwardScratch {
  BackwardScratch(void* base, int64_t queries, int64_t keys, int64_t d_head) : pieces(base) {
    const int64_t tile = std::min(queries, kQueryTile);
    const int64_t stride = padded<R>(d_head);
    key = pieces.take<R>(keys * stride);
    key_transposed = pieces.take<R>(stride * key_stride<R>(keys));
    value_transposed = pieces.take<R>(stride * key_stride<R>(keys));
    d_key = pieces.take<R>(keys * stride);
    d_value = pieces.take<R>(keys * stride);
    query = pieces.take<R>(tile * stride);
    d_out = pieces.take<R>(tile * stride);
    d_query = pieces.take<R>(tile * stride);
    scores = pieces.take<R>(tile * key_stride<R>(keys));
    d_scores = pieces.take<R>(tile * key_stride<R>(keys));
    probabilities = pieces.take<R>(tile * key_stride<R>(keys));
    bits = pieces.take<uint16_t>(dropout_room(tile, keys) + 64);
  }
  ScratchPieces pieces;
  R* key;               // [keys, padded d_head]
  R* key_transposed;    // [padded d_head, key_stride]
  R* value_transposed;  // [padded d_head, key_stride]
  R* d_key;             // [keys, padded d_head], summed over tiles
  R* d_value;           // [keys, padded d_head], summed over tiles
  R* query;             // [tile, padded d_head], times scale
  R* d_out;             // [tile, padded d_head]
  R* d_query;           // [tile, padded d_head]
  R* scores;            // [tile, key_stride]: scale * Q K^T, then M * P
  R* d_scores;          // [tile, key_stride]: dO V^T, then dS
  R* probabilities;     // [tile, key_stride]: P, with dropout
  uint16_t* bits;       // dropout numbers of the tile
};

template <typename T>
class Backward {
 public:
  using R = Master<T>;

  explicit Backward(const AttentionBackwardArgs& args)
      : args_(args), d_head_(args.query.cols / args.heads), stride_(padded<R>(d_head_)) {}

  void sentence_head(int s, int head, const BackwardScratch<R>& scratch) const {
    const int64_t query_begin = args_.query_offsets[s];
    const int64_t queries = args_.query_offsets[s + 1] - query_begin;
    const int64_t key_begin = args_.key_offsets[s];
    const int64_t keys = args_.key_offsets[s + 1] - key_begin;
    const int64_t column = head * d_head_;
    if (keys == 0) {
      for (int64_t t = query_begin; t < query_begin + queries; ++t) {
        std::fill_n(args_.d_query.row<T>(t) + column, d_head_, T());
      }
      return;
    }
    prefetch_rows(args_.d_key.row<T>(key_begin) + column, args_.d_key.stride, keys, d_head_);
    prefetch_rows(args_.d_value.row<T>(key_begin) + column, args_.d_value.stride, keys, d_head_);
    load_rows(args_.value.row<T>(key_begin) + column, args_.value.stride, keys, d_head_,
              to_next(args_.value, keys, head, args_.heads), R(1), scratch.key, stride_);
    transpose(scratch.key, stride_, keys, stride_, scratch.value_transposed, key_stride<R>(keys));
    load_rows(args_.key.row<T>(key_begin) + column, args_.key.stride, keys, d_head_,
              to_next(args_.key, keys, head, args_.heads), R(1), scratch.key, stride_);
    transpose(scratch.key, stride_, keys, stride_, scratch.key_transposed, key_stride<R>(keys));
    std::fill_n(scratch.d_key, keys * stride_, R(0));
    std::fill_n(scratch.d_value, keys * stride_, R(0));
    for (int64_t first = 0; first < queries; first += kQueryTile) {
      tile(query_begin, first, std::min(kQueryTile, queries - first), keys, head, scratch);
    }
    store_rows(scratch.d_key, stride_, keys, d_head_, R(1), args_.d_key.row<T>(key_begin) + column,
               args_.d_key.stride);
    store_rows(scratch.d_value, stride_, keys, d_head_, R(1), args_.d_value.row<T>(key_begin) + column,
               args_.d_value.stride);
  }

 private:
  /// Queries [first, first + rows) of the sentence whose first is row `begin`.
  void tile(int64_t begin, int64_t first, int64_t rows, int64_t keys, int head,
            const BackwardScratch<R>& scratch) const {
    const int64_t seen = args_.causal ? std::min(keys, first + rows) : keys;
    const int64_t width = padded<R>(seen);
    const int64_t score_stride = key_stride<R>(keys);
    const int64_t column = head * d_head_;
    const int64_t row = begin + first;
    const auto triangle = [&](Triangle which) { return args_.causal ? which : Triangle::kNone; };
    prefetch_rows(args_.d_query.row<T>(row) + column, args_.d_query.stride, rows, d_head_);
    load_rows(args_.query.row<T>(row) + column, args_.query.stride, rows, d_head_,
              to_next(args_.query, rows, head, args_.heads), static_cast<R>(args_.scale), scratch.query,
              stride_);
    load_rows(args_.d_out.row<T>(row) + column, args_.d_out.stride, rows, d_head_,
              to_next(args_.d_out, rows, head, args_.heads), R(1), scratch.d_out, stride_);
    small_matmul<R>({.rows = rows,
                     .cols = width,
                     .depth = d_head_,
                     .a = scratch.query,
                     .row_step = stride_,
                     .k_step = 1,
                     .b = scratch.key_transposed,
                     .b_stride = score_stride,
                     .c = scratch.scores,
                     .c_stride = score_stride,
                     .triangle = triangle(Triangle::kResult),
                     .diagonal = first});
    small_matmul<R>({.rows = rows,
                     .cols = width,
                     .depth = d_head_,
                     .a = scratch.d_out,
                     .row_step = stride_,
                     .k_step = 1,
                     .b = scratch.value_transposed,
                     .b_stride = score_stride,
                     .c = scratch.d_scores,
                     .c_stride = score_stride,
                     .triangle = triangle(Triangle::kResult),
                     .diagonal = first});
    if (args_.dropout.active()) {
      dropout_tile(args_.dropout, static_cast<uint32_t>(row), rows, seen, static_cast<uint32_t>(head),
                   scratch.bits);
    }
    // Short loops over the rows, so that the processor overlaps the latency of one row with the work of
    // others.
    const R* log_sum_exp = args_.log_sum_exp.row<R>(head) + row;
    R* const probabilities = args_.dropout.active() ? scratch.probabilities : scratch.scores;
    const auto limit = [&](int64_t i) { return args_.causal ? std::min(keys, first + i + 1) : keys; };
    R sums[kQueryTile];
    for (int64_t i = 0; i < rows; ++i) {
      sums[i] = softmax_row(scratch.scores + i * score_stride, scratch.d_scores + i * score_stride,
                            probabilities + i * score_stride, scratch.bits + i * dropout_stride(seen),
                            limit(i), log_sum_exp[i]);
    }
    for (int64_t i = 0; i < rows; ++i) {
      R* const scores = scratch.scores + i * score_stride;
      R* const d_scores = scratch.d_scores + i * score_stride;
      const int64_t used = padded<R>(limit(i));
      subtract(probabilities + i * score_stride, used, sums[i], d_scores);
      for (int64_t j = used; j < width; ++j) scores[j] = d_scores[j] = R(0);
    }
    small_matmul<R>({.rows = seen,
                     .cols = stride_,
                     .depth = rows,
                     .a = scratch.scores,
                     .row_step = 1,
                     .k_step = score_stride,
                     .b = scratch.d_out,
                     .b_stride = stride_,
                     .c = scratch.d_value,
                     .c_stride = stride_,
                     .accumulate = true,
                     .triangle = triangle(Triangle::kLeftTransposed),
                     .diagonal = first});
    small_matmul<R>({.rows = seen,
                     .cols = stride_,
                     .depth = rows,
                     .a = scratch.d_scores,
                     .row_step = 1,
                     .k_step = score_stride,
                     .b = scratch.query,
                     .b_stride = stride_,
                     .c = scratch.d_key,
                     .c_stride = stride_,
                     .accumulate = true,
                     .triangle = triangle(Triangle::kLeftTransposed),
                     .diagonal = first});
    small_matmul<R>({.rows = rows,
                     .cols = stride_,
                     .depth = seen,
                     .a = scratch.d_scores,
                     .row_step = score_stride,
                     .k_step = 1,
                     .b = scratch.key,
                     .b_stride = stride_,
                     .c = scratch.d_query,
                     .c_stride = stride_,
                     .triangle = triangle(Triangle::kLeft),
                     .diagonal = first});
    store_rows(scratch.d_query, stride_, rows, d_head_, static_cast<R>(args_.scale),
               args_.d_query.row<T>(row) + column, args_.d_query.stride);
  }

  /// With P = exp(S - log_sum_exp), which may be written over S, and W = M * P * (dO V^T):  S := M * P;
  /// dS := W, of which W - P * sum(W) is the gradient. Returns the sum: it is D, the row sum of dO * O,
  /// without the rounding of O.
  R softmax_row(R* scores, R* d_scores, R* probability, const uint16_t* bits, int64_t limit,
                R log_sum_exp) const {
    constexpr int n = kLanes<R>;
    const int64_t used = mask_tail(scores, limit);
    for (int64_t j = 0; j < used; j += n) {
#pragma omp simd
      for (int l = 0; l < n; ++l) probability[j + l] = exp_approx(scores[j + l] - log_sum_exp);
    }
    if (args_.dropout.active()) {
      const uint16_t threshold = static_cast<uint16_t>(args_.dropout.threshold());
      const R kept_scale = static_cast<R>(args_.dropout.scale());
      for (int64_t j = 0; j < used; j += n) {
#pragma omp simd
        for (int l = 0; l < n; ++l)
          scores[j + l] = bits[j + l] < threshold ? R(0) : probability[j + l] * kept_scale;
      }
    }
    LaneSums<R, kRowLanes> sum;
    for_vectors<R, kRowLanes>(
        used, [&](int64_t j, int v) __attribute__((always_inline)) {
          const Vector<R> product = load_vector(scores + j) * load_vector(d_scores + j);
          store_vector(d_scores + j, product);
          sum.add(v, product);
        });
    return sum.total();
  }

  /// y := y - factor * x.
  static void subtract(const R* x, int64_t count, R factor, R* y) {
    const Vector<R> minus = in_all_lanes(-factor);
    for (int64_t j = 0; j < count; j += kLanes<R>)
      store_vector(y + j, fused(minus, load_vector(x + j), load_vector(y + j)));
  }

  const AttentionBackwardArgs& args_;
  int64_t d_head_;
  int64_t stride_;  // of rows of d_head in scratch
};

template <typename T>
void backward_of(Context& context, const AttentionBackwardArgs& args) {
  for_sentences_and_heads<BackwardScratch<Master<T>>>(context, args, Backward<T>(args));
  clear_rows<T>(args.d_query, args.query_offsets[args.sentences]);
  clear_rows<T>(args.d_key, args.key_offsets[args.sentences]);
  clear_rows<T>(args.d_value, args.key_offsets[args.sentences]);
}

}  // namespace

void attention_backward_cpu(Context& context, const AttentionBackwardArgs& args) {
  dispatch_dtype(args.query.dtype, [&](auto tag) { backward_of<decltype(tag)>(context, args); });
}

}  // namespace ventris
