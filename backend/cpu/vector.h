// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

/// Vectors of the width of the instruction set, as the compilers' vector types: one source for all of them.
/// No result depends on the width: elements of a vector are independent, except in the sums of LaneSums,
/// which have a fixed number of lanes (backend/cpu/lane_sums.h).
namespace ventris {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif

template <typename R>
struct VectorOf;
template <>
struct VectorOf<float> {
  typedef float type __attribute__((vector_size(kVectorBytes)));
  typedef int32_t index __attribute__((vector_size(kVectorBytes)));
};
template <>
struct VectorOf<double> {
  typedef double type __attribute__((vector_size(kVectorBytes)));
  typedef int64_t index __attribute__((vector_size(kVectorBytes)));
};
template <typename R>
using Vector = typename VectorOf<R>::type;

template <typename R>
inline constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(R));

/// Columns of a register block of a product, in vectors.
inline constexpr int kMaxVectors = kVectorBytes == 64 ? 4 : 2;

/// `count` rounded up to whole vectors.
template <typename R>
constexpr int64_t padded(int64_t count) {
  return (count + kLanes<R> - 1) / kLanes<R> * kLanes<R>;
}

template <typename R>
inline Vector<R> load_vector(const R* from) {
  Vector<R> v;
  std::memcpy(&v, from, sizeof(v));
  return v;
}
template <typename R>
inline void store_vector(R* to, Vector<R> v) {
  std::memcpy(to, &v, sizeof(v));
}

/// v in the first `count` lanes, `rest` in the others.
template <typename R>
inline Vector<R> first_lanes(Vector<R> v, int64_t count, R rest) {
  typename VectorOf<R>::index lane;
  for (int l = 0; l < kLanes<R>; ++l) lane[l] = l;
  return lane < static_cast<decltype(lane[0] + 0)>(count) ? v : Vector<R>{} + rest;
}

/// Lane l of the result is lane (l + kSpan) % kLanes of v.
template <typename R, int kSpan, int... kLane>
Vector<R> rotate(Vector<R> v, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(v, v, ((kLane + kSpan) % kLanes<R>)...);
}

/// combine() over all lanes, as a tree.
template <typename R, int kSpan = kLanes<R> / 2, typename Combine>
R reduce_lanes(Vector<R> v, Combine&& combine) {
  if constexpr (kSpan == 0) {
    return v[0];
  } else {
    const Vector<R> other = rotate<R, kSpan>(v, std::make_integer_sequence<int, kLanes<R>>());
    return reduce_lanes<R, kSpan / 2>(combine(v, other), combine);
  }
}

template <typename R>
R max_of_lanes(Vector<R> v) {
  return reduce_lanes<R>(v, [](Vector<R> x, Vector<R> y) { return x > y ? x : y; });
}

/// Lanes of x and y interleaved: of their first halves, or of their second halves.
template <typename R, int kFirst, int... kLane>
inline Vector<R> interleave(Vector<R> x, Vector<R> y, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(x, y, (kFirst + kLane / 2 + kLane % 2 * kLanes<R>)...);
}

/// Transposes a square, given by its rows: interleaves the first half of the rows with the second,
/// log2(kLanes) times.
template <typename R>
[[gnu::always_inline]] inline void transpose_square(Vector<R> (&x)[kLanes<R>]) {
  constexpr int n = kLanes<R>;
  constexpr auto lanes = std::make_integer_sequence<int, n>();
#pragma GCC unroll 4
  for (int step = 1; step < n; step *= 2) {
    Vector<R> y[n];
#pragma GCC unroll 8
    for (int i = 0; i < n / 2; ++i) {
      y[2 * i] = interleave<R, 0>(x[i], x[i + n / 2], lanes);
      y[2 * i + 1] = interleave<R, n / 2>(x[i], x[i + n / 2], lanes);
    }
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) x[i] = y[i];
  }
}

/// to[c, r] = from[r, c] for c < `cols`, a multiple of kLanes, and r < padded(rows), where rows from `rows`
/// on are zero.
template <typename R>
void transpose(const R* from, int64_t from_stride, int64_t rows, int64_t cols, R* to, int64_t to_stride) {
  constexpr int n = kLanes<R>;
  for (int64_t r = 0; r < rows; r += n) {
    for (int64_t c = 0; c < cols; c += n) {
      Vector<R> x[n];
      for (int i = 0; i < n; ++i) {
        x[i] = r + i < rows ? load_vector(from + (r + i) * from_stride + c) : Vector<R>{};
      }
      transpose_square<R>(x);
#pragma GCC unroll 16
      for (int i = 0; i < n; ++i) store_vector(to + (c + i) * to_stride + r, x[i]);
    }
  }
}

}  // namespace ventris
