// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "backend/cpu/dropout.h"
#include "backend/cpu/lane_sums.h"
#include "backend/cpu/simd.h"
#include "backend/cpu/small_matmul.h"
#include "backend/ops/attention.h"
#include "backend/ops/op_checks.h"

/// Shared by the CPU kernels of attention. R is the type of the sums: f32, or f64 for f64.
namespace ventris {

/// Queries that are processed together, against all keys of their sentence: bounds the scratch memory.
inline constexpr int64_t kQueryTile = 64;

/// Lanes of the sums over the keys of a query, and over a head.
inline constexpr int kRowLanes = 16;

/// Pieces of one thread's scratch memory; only measures if `base` is null.
class ScratchPieces {
 public:
  explicit ScratchPieces(void* base) : base_(static_cast<char*>(base)) {}
  template <typename V>
  V* take(int64_t count) {
    V* piece = base_ == nullptr ? nullptr : reinterpret_cast<V*>(base_ + used_);
    used_ += (static_cast<size_t>(count) * sizeof(V) + 127) / 128 * 128;
    return piece;
  }
  size_t used() const { return used_; }

 private:
  char* base_;
  size_t used_ = 0;
};

/// Row stride of a matrix whose columns are keys: whole vectors, and an odd number of cache lines, so that a
/// block of columns does not map to few sets of the cache.
template <typename R>
constexpr int64_t key_stride(int64_t keys) {
  constexpr int64_t line = 64 / static_cast<int64_t>(sizeof(R));
  return ((keys + line - 1) / line | 1) * line;
}

/// The longest sentence.
inline int64_t longest(const int32_t* offsets, int sentences) {
  int64_t max = 0;
  for (int s = 0; s < sentences; ++s) max = std::max<int64_t>(max, offsets[s + 1] - offsets[s]);
  return max;
}

/// Sets the elements of a row from `limit` to the end of their vector to -infinity; returns that end.
template <typename R>
int64_t mask_tail(R* scores, int64_t limit) {
  const int64_t last = (limit - 1) / kLanes<R> * kLanes<R>;
  store_vector(scores + last,
               first_lanes(load_vector(scores + last), limit - last, -std::numeric_limits<R>::infinity()));
  return last + kLanes<R>;
}

/// Copies rows of activations as R times `factor`, columns padded with zeros to `stride`. The rows are short
/// pieces of longer ones, which hardware prefetchers miss: the function prefetches the piece of each that is
/// `next` elements further.
template <typename T, typename R>
void load_rows(const T* from, int64_t from_stride, int64_t rows, int64_t cols, int64_t next, R factor, R* to,
               int64_t stride) {
  for (int64_t i = 0; i < rows; ++i) {
    const T* x = from + i * from_stride;
    R* y = to + i * stride;
    for (int64_t c = 0; c < cols; c += 64 / static_cast<int64_t>(sizeof(T))) __builtin_prefetch(x + next + c);
#pragma omp simd
    for (int64_t c = 0; c < cols; ++c) y[c] = load(x[c]) * factor;
    for (int64_t c = cols; c < stride; ++c) y[c] = R(0);
  }
}

/// Prefetches rows that will be written, which hardware does not foresee either.
template <typename T>
void prefetch_rows(const T* to, int64_t to_stride, int64_t rows, int64_t cols) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t c = 0; c < cols; c += 64 / static_cast<int64_t>(sizeof(T)))
      __builtin_prefetch(to + i * to_stride + c, 1);
  }
}

/// Copies rows of R times `factor` to activations.
template <typename R, typename T>
void store_rows(const R* from, int64_t stride, int64_t rows, int64_t cols, R factor, T* to,
                int64_t to_stride) {
  for (int64_t i = 0; i < rows; ++i) {
    const R* x = from + i * stride;
    T* y = to + i * to_stride;
#pragma omp simd
    for (int64_t c = 0; c < cols; ++c) store(y[c], x[c] * factor);
  }
}

/// Sets rows [begin, tensor.rows) to zero.
template <typename T>
void clear_rows(const Tensor& tensor, int64_t begin) {
  for (int64_t r = begin; r < tensor.rows; ++r) std::fill_n(tensor.row<T>(r), tensor.cols, T());
}

/// A slice of `bytes` of the scratch arena for each thread. Requires an ArenaScope around it.
inline char* thread_slices(Context& context, size_t bytes) {
  const size_t total = bytes * static_cast<size_t>(context.pool().threads());
  need_scratch(context, total);
  return static_cast<char*>(context.scratch().allocate(total));
}

/// Elements from the rows of a sentence and head to those that follow: of the next head, or of the first one
/// of the next sentence, taken to be as long.
inline int64_t to_next(const ConstTensor& x, int64_t rows, int head, int64_t heads) {
  const int64_t d_head = x.cols / heads;
  return head + 1 < heads ? d_head : rows * x.stride - head * d_head;
}

/// Calls kernel.sentence_head(s, head, scratch) for every sentence and head, each thread with its own
/// Scratch(memory, longest query side, longest key side, d_head).
template <typename Scratch, typename Kernel, typename Args>
void for_sentences_and_heads(Context& context, const Args& args, const Kernel& kernel) {
  const int64_t queries = longest(args.query_offsets, args.sentences);
  const int64_t keys = longest(args.key_offsets, args.sentences);
  const int64_t d_head = args.query.cols / args.heads;
  ArenaScope scope(context.scratch());
  const size_t bytes = Scratch(nullptr, queries, keys, d_head).pieces.used();
  char* slices = thread_slices(context, bytes);
  context.pool().for_each(int64_t{args.sentences} * args.heads, [&](int64_t index, int thread) {
    const Scratch scratch(slices + static_cast<size_t>(thread) * bytes, queries, keys, d_head);
    kernel.sentence_head(static_cast<int>(index / args.heads), static_cast<int>(index % args.heads), scratch);
  });
}

}  // namespace ventris
