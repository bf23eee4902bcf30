// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/attention.h"

namespace ventris {
namespace {

/// One thread's memory. A tile is kQueryTile queries.
template <typename R>
struct ForwardScratch {
  ForwardScratch(void* base, int64_t queries, int64_t keys, int64_t d_head) : pieces(base) {
    const int64_t tile = std::min(queries, kQueryTile);
    rows = pieces.take<R>(keys * padded<R>(d_head));
    key_transposed = pieces.take<R>(padded<R>(d_head) * key_stride<R>(keys));
    query = pieces.take<R>(tile * padded<R>(d_head));
    scores = pieces.take<R>(tile * key_stride<R>(keys));
    out = pieces.take<R>(tile * padded<R>(d_head));
    bits = pieces.take<uint16_t>(dropout_room(tile, keys) + 64);
  }
  ScratchPieces pieces;
  R* rows;            // [keys, padded d_head]: keys, then values
  R* key_transposed;  // [padded d_head, key_stride]
  R* query;           // [tile, padded d_head], times scale
  R* scores;          // [tile, key_stride], then probabilities
  R* out;             // [tile, padded d_head]
  uint16_t* bits;     // dropout numbers of the tile
};

/// The largest of the first `limit` of a row; sets the rest of their last vector to -infinity.
template <typename R>
R masked_maximum(R* scores, int64_t limit) {
  const int64_t used = mask_tail(scores, limit);
  Vector<R> max = load_vector(scores);
  for (int64_t j = kLanes<R>; j < used; j += kLanes<R>) {
    const Vector<R> v = load_vector(scores + j);
    max = v > max ? v : max;
  }
  return max_of_lanes<R>(max);
}

/// scores := exp(scores - maximum) over the first `limit` of a row, zero from there to `width`. Returns the
/// sum.
template <typename R>
R exponentials(R* scores, int64_t limit, int64_t width, R maximum) {
  constexpr int n = kLanes<R>;
  const int64_t used = padded<R>(limit);
  LaneSums<R, kRowLanes> sum;
  for_vectors<R, kRowLanes>(
      used, [&](int64_t j, int v) __attribute__((always_inline)) {
#pragma omp simd
        for (int l = 0; l < n; ++l) scores[j + l] = exp_approx(scores[j + l] - maximum);
        sum.add(v, load_vector(scores + j));
      });
  for (int64_t j = used; j < width; ++j) scores[j] = R(0);
  return sum.total();
}

template <typename T>
class Forward {
 public:
  using R = Master<T>;

  explicit Forward(const AttentionForwardArgs& args)
      : args_(args), d_head_(args.query.cols / args.heads), stride_(padded<R>(d_head_)) {}

  void sentence_head(int s, int head, const ForwardScratch<R>& scratch) const {
    const int64_t query_begin = args_.query_offsets[s];
    const int64_t queries = args_.query_offsets[s + 1] - query_begin;
    const int64_t key_begin = args_.key_offsets[s];
    const int64_t keys = args_.key_offsets[s + 1] - key_begin;
    const int64_t column = head * d_head_;
    if (queries == 0) return;
    if (keys == 0) return no_keys(query_begin, queries, head);

    load_rows(args_.key.row<T>(key_begin) + column, args_.key.stride, keys, d_head_,
              to_next(args_.key, keys, head, args_.heads), R(1), scratch.rows, stride_);
    transpose(scratch.rows, stride_, keys, stride_, scratch.key_transposed, key_stride<R>(keys));
    load_rows(args_.value.row<T>(key_begin) + column, args_.value.stride, keys, d_head_,
              to_next(args_.value, keys, head, args_.heads), R(1), scratch.rows, stride_);
    for (int64_t first = 0; first < queries; first += kQueryTile) {
      tile(query_begin, first, std::min(kQueryTile, queries - first), keys, head, scratch);
    }
  }

 private:
  void no_keys(int64_t begin, int64_t queries, int head) const {
    for (int64_t t = begin; t < begin + queries; ++t) {
      std::fill_n(args_.out.row<T>(t) + head * d_head_, d_head_, T());
      if (args_.log_sum_exp) args_.log_sum_exp.row<R>(head)[t] = R(0);
      write_probabilities(t, head, nullptr, 0, R(0));
    }
  }

  void write_probabilities(int64_t t, int head, const R* row, int64_t limit, R factor) const {
    if (!args_.probabilities) return;
    const int64_t max_keys = args_.probabilities.cols / args_.heads;
    R* to = args_.probabilities.row<R>(t) + head * max_keys;
    for (int64_t j = 0; j < limit; ++j) to[j] = row[j] * factor;
    std::fill(to + limit, to + max_keys, R(0));
  }

  /// Queries [first, first + rows) of the sentence whose first is row `begin`.
  void tile(int64_t begin, int64_t first, int64_t rows, int64_t keys, int head,
            const ForwardScratch<R>& scratch) const {
    const int64_t seen = args_.causal ? std::min(keys, first + rows) : keys;
    const int64_t width = padded<R>(seen);
    const int64_t score_stride = key_stride<R>(keys);
    const int64_t column = head * d_head_;
    const int64_t row = begin + first;
    prefetch_rows(args_.out.row<T>(row) + column, args_.out.stride, rows, d_head_);
    load_rows(args_.query.row<T>(row) + column, args_.query.stride, rows, d_head_,
              to_next(args_.query, rows, head, args_.heads), static_cast<R>(args_.scale), scratch.query,
              stride_);
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
                     .triangle = args_.causal ? Triangle::kResult : Triangle::kNone,
                     .diagonal = first});
    const bool dropped = args_.dropout.active();
    const R kept_scale = static_cast<R>(dropped ? args_.dropout.scale() : 1.0);
    if (dropped) {
      dropout_tile(args_.dropout, static_cast<uint32_t>(row), rows, seen, static_cast<uint32_t>(head),
                   scratch.bits);
    }
    // Short loops over the rows, so that the processor overlaps the latency of one row with the work of
    // others.
    const auto scores = [&](int64_t i) { return scratch.scores + i * score_stride; };
    const auto limit = [&](int64_t i) { return args_.causal ? std::min(keys, first + i + 1) : keys; };
    R maxima[kQueryTile];
    R sums[kQueryTile];
    for (int64_t i = 0; i < rows; ++i) maxima[i] = masked_maximum<R>(scores(i), limit(i));
    for (int64_t i = 0; i < rows; ++i) sums[i] = exponentials<R>(scores(i), limit(i), width, maxima[i]);
    if (args_.log_sum_exp) {
      R* log_sum_exp = args_.log_sum_exp.row<R>(head) + row;
      double exact_sums[kQueryTile];
      double logs[kQueryTile];
      std::copy_n(sums, rows, exact_sums);
      portable_logs(exact_sums, rows, logs);
      for (int64_t i = 0; i < rows; ++i) log_sum_exp[i] = maxima[i] + static_cast<R>(logs[i]);
    }
    for (int64_t i = 0; i < rows; ++i) {
      write_probabilities(row + i, head, scores(i), limit(i), R(1) / sums[i]);
      if (dropped) drop(scores(i), scratch.bits + i * dropout_stride(seen), padded<R>(limit(i)));
    }
    small_matmul<R>({.rows = rows,
                     .cols = stride_,
                     .depth = seen,
                     .a = scratch.scores,
                     .row_step = score_stride,
                     .k_step = 1,
                     .b = scratch.rows,
                     .b_stride = stride_,
                     .c = scratch.out,
                     .c_stride = stride_,
                     .triangle = args_.causal ? Triangle::kLeft : Triangle::kNone,
                     .diagonal = first});
    for (int64_t i = 0; i < rows; ++i) {
      store_rows(scratch.out + i * stride_, stride_, 1, d_head_, kept_scale / sums[i],
                 args_.out.row<T>(row + i) + column, args_.out.stride);
    }
  }

  void drop(R* probabilities, const uint16_t* bits, int64_t width) const {
    const uint16_t threshold = static_cast<uint16_t>(args_.dropout.threshold());
    for (int64_t j = 0; j < width; j += kLanes<R>) {
#pragma omp simd
      for (int l = 0; l < kLanes<R>; ++l)
        probabilities[j + l] = bits[j + l] < threshold ? R(0) : probabilities[j + l];
    }
  }

  const AttentionForwardArgs& args_;
  int64_t d_head_;
  int64_t stride_;  // of rows of d_head in scratch
};

template <typename T>
void forward_of(Context& context, const AttentionForwardArgs& args) {
  for_sentences_and_heads<ForwardScratch<Master<T>>>(context, args, Forward<T>(args));
  clear_rows<T>(args.out, args.query_offsets[args.sentences]);
}

}  // namespace

void attention_forward_cpu(Context& context, const AttentionForwardArgs& args) {
  dispatch_dtype(args.query.dtype, [&](auto tag) { forward_of<decltype(tag)>(context, args); });
}

}  // namespace ventris
