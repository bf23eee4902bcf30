// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backend/cpu/attention.h"

namespace ventris {
namespace {

/// Sums of x * y over a head for kKeys rows y, each in kRowLanes lanes.
template <typename T, int kKeys>
[[gnu::always_inline]] inline void dots(const Master<T>* x, const T* const (&y)[kKeys], int64_t count,
                                        Master<T>* out) {
  using R = Master<T>;
  constexpr int n = kLanes<R>;
  constexpr int kVectors = kRowLanes / n;
  Vector<R> sums[kKeys][kVectors] = {};
  const auto add = [&](const R* from, const T* const(&with)[kKeys], int64_t c)
      __attribute__((always_inline)) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const Vector<R> factor = load_vector(from + c + v * n);
#pragma GCC unroll 4
      for (int key = 0; key < kKeys; ++key) {
        sums[key][v] = fused(factor, load_numbers(with[key] + c + v * n), sums[key][v]);
      }
    }
  };
  int64_t c = 0;
  for (; c + kRowLanes <= count; c += kRowLanes) add(x, y, c);
  if (c < count) {  // with zeros behind the last
    R last[kRowLanes] = {};
    T rows[kKeys][kRowLanes] = {};
    const T* with[kKeys];
    std::copy_n(x + c, count - c, last);
    for (int key = 0; key < kKeys; ++key)
      with[key] = std::copy_n(y[key] + c, count - c, rows[key]) - (count - c);
    add(last, with, 0);
  }
#pragma GCC unroll 4
  for (int key = 0; key < kKeys; ++key) {
    LaneSums<R, kRowLanes> sum;
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sum.add(v, sums[key][v]);
    out[key] = sum.total();
  }
}

/// out[c] = sum over j of p[j] * y[j][c] for kVectors vectors of columns from `column`, which stay in
/// registers.
template <typename T, int kVectors, typename R>
void sum_columns(const ConstTensor& y, const int32_t* rows, int64_t count, int64_t column, const R* p,
                 R* out) {
  constexpr int n = kLanes<R>;
  Vector<R> sum[kVectors] = {};
  for (int64_t j = 0; j < count; ++j) {
    const T* row = y.row<T>(rows[j]) + column;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[v] = fused(in_all_lanes(p[j]), load_numbers(row + v * n), sum[v]);
  }
  for (int v = 0; v < kVectors; ++v) store_vector(out + v * n, sum[v]);
}

/// out[c] = sum over j of p[j] * y[j][c], in order of j, for `width` columns from `column`.
template <typename T, typename R>
void sum_rows(const ConstTensor& y, const int32_t* rows, int64_t count, int64_t column, int64_t width,
              const R* p, R* out) {
  constexpr int n = kLanes<R>;
  int64_t c = 0;
  for (; c + 4 * n <= width; c += 4 * n) sum_columns<T, 4>(y, rows, count, column + c, p, out + c);
  for (; c + 2 * n <= width; c += 2 * n) sum_columns<T, 2>(y, rows, count, column + c, p, out + c);
  for (; c + n <= width; c += n) sum_columns<T, 1>(y, rows, count, column + c, p, out + c);
  std::fill(out + c, out + width, R(0));
  for (int64_t j = 0; j < count && c < width; ++j) {
    const T* row = y.row<T>(rows[j]) + column;
    for (int64_t l = c; l < width; ++l) out[l] = std::fma(p[j], static_cast<R>(load(row[l])), out[l]);
  }
}

template <typename T>
void decode_head(const AttentionDecodeArgs& args, int64_t r, int head, Master<T>* query, Master<T>* scores,
                 Master<T>* out) {
  using R = Master<T>;
  const int64_t d_head = args.query.cols / args.heads;
  const int64_t column = head * d_head;
  const int32_t* rows = args.key_rows + args.key_begin[r];
  const int64_t keys = args.key_begin[r + 1] - args.key_begin[r];
  load_rows(args.query.row<T>(r) + column, args.query.stride, 1, d_head, d_head, static_cast<R>(args.scale),
            query, d_head);
  R maximum = -std::numeric_limits<R>::infinity();
  constexpr int kTogether = 4;
  const auto key_of = [&](int64_t j) { return args.key.row<T>(rows[j]) + column; };
  int64_t done = 0;
  for (; done + kTogether <= keys; done += kTogether) {
    dots<T, kTogether>(query, {key_of(done), key_of(done + 1), key_of(done + 2), key_of(done + 3)}, d_head,
                       scores + done);
  }
  for (; done < keys; ++done) dots<T, 1>(query, {key_of(done)}, d_head, scores + done);
  for (int64_t j = 0; j < keys; ++j) maximum = scores[j] > maximum ? scores[j] : maximum;
#pragma omp simd
  for (int64_t j = 0; j < keys; ++j) scores[j] = exp_approx(scores[j] - maximum);
  R sum = 0;
  for (int64_t j = 0; j < keys; ++j) sum += scores[j];
  sum_rows<T>(args.value, rows, keys, column, d_head, scores, out);
  const R factor = keys == 0 ? R(0) : R(1) / sum;
  store_rows(out, d_head, 1, d_head, factor, args.out.row<T>(r) + column, args.out.stride);
  if (args.probabilities) {
    R* mean = args.probabilities.row<R>(r);
    for (int64_t j = 0; j < keys; ++j) mean[j] += scores[j] * factor / static_cast<R>(args.heads);
  }
}

template <typename T>
void decode_of(Context& context, const AttentionDecodeArgs& args) {
  using R = Master<T>;
  const int64_t hypotheses = args.query.rows;
  const int64_t d_head = args.query.cols / args.heads;
  int64_t keys = 0;
  for (int64_t r = 0; r < hypotheses; ++r)
    keys = std::max<int64_t>(keys, args.key_begin[r + 1] - args.key_begin[r]);
  struct Scratch {
    Scratch(void* base, int64_t keys, int64_t d_head) : pieces(base) {
      query = pieces.take<R>(d_head);
      out = pieces.take<R>(d_head);
      scores = pieces.take<R>(keys);
    }
    ScratchPieces pieces;
    R* query;   // [d_head], times scale
    R* out;     // [d_head]
    R* scores;  // [keys]
  };
  ArenaScope scope(context.scratch());
  const size_t bytes = Scratch(nullptr, keys, d_head).pieces.used();
  char* slices = thread_slices(context, bytes);
  context.pool().for_each(hypotheses, [&](int64_t r, int thread) {
    const Scratch scratch(slices + static_cast<size_t>(thread) * bytes, keys, d_head);
    if (args.probabilities) std::fill_n(args.probabilities.row<R>(r), args.probabilities.cols, R(0));
    for (int head = 0; head < args.heads; ++head) {
      decode_head<T>(args, r, head, scratch.query, scratch.scores, scratch.out);
    }
  });
}

}  // namespace

void attention_decode_cpu(Context& context, const AttentionDecodeArgs& args) {
  dispatch_dtype(args.query.dtype, [&](auto tag) { decode_of<decltype(tag)>(context, args); });
}

}  // namespace ventris
