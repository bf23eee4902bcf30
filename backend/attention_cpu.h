#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "backend/attention.h"
#include "backend/small_matmul_cpu.h"

/// What the CPU kernels of attention share. R is the type that sums are carried in: f32, or f64 for f64.
namespace ventris {

template <typename T>
void attention_forward_cpu(Context& context, const AttentionForwardArgs& args);
template <typename T>
void attention_backward_cpu(Context& context, const AttentionBackwardArgs& args);
template <typename T>
void attention_decode_cpu(Context& context, const AttentionDecodeArgs& args);

/// Queries that are worked on together, against all keys of their sentence: bounds the scratch memory.
inline constexpr int64_t kQueryTile = 64;

/// Pieces of one thread's scratch memory; counts only where `base` is null.
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
/// block of columns does not fall on few sets of the cache.
template <typename R>
constexpr int64_t key_stride(int64_t keys) {
  constexpr int64_t line = 64 / static_cast<int64_t>(sizeof(R));
  return ((keys + line - 1) / line | 1) * line;
}

/// The longest sentence.
inline int64_t longest(const int32_t* offsets, int sentences) {
  int64_t most = 0;
  for (int s = 0; s < sentences; ++s) most = std::max<int64_t>(most, offsets[s + 1] - offsets[s]);
  return most;
}

/// Sets the elements of a row from `limit` to the end of their vector to -infinity; returns that end.
template <typename R>
int64_t mask_tail(R* scores, int64_t limit) {
  const int64_t last = (limit - 1) / kLanes<R> * kLanes<R>;
  store_vector(scores + last,
               first_lanes(load_vector(scores + last), limit - last, -std::numeric_limits<R>::infinity()));
  return last + kLanes<R>;
}

/// Sets rows [begin, tensor.rows) to zero.
template <typename T>
void clear_rows(const Tensor& tensor, int64_t begin) {
  for (int64_t r = begin; r < tensor.rows; ++r) std::fill_n(tensor.row<T>(r), tensor.cols, T());
}

/// Grows the scratch arena if nothing is in it, and cuts a slice of `bytes` for each thread.
inline char* thread_slices(Context& context, size_t bytes) {
  const size_t total = bytes * static_cast<size_t>(context.pool().threads());
  if (context.scratch().used() == 0) context.reserve_scratch(total);
  return static_cast<char*>(context.scratch().allocate(total));
}

}  // namespace ventris
