#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "backend/vector_cpu.h"

namespace ventris {

/// to[r, c] = from[c, r] of a square of kLanes<float> rows and columns. Each row is read once: rows of `from`
/// that are a power of two apart may drive each other out of the cache.
inline void transpose_square(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
  constexpr int n = kLanes<float>;
  constexpr auto lanes = std::make_integer_sequence<int, n>();
  Vector<float> x[n];
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i) x[i] = load_vector(from + i * from_stride);
    // Interleaving the first half of the rows with the second, log2(n) times, transposes the square.
#pragma GCC unroll 4
  for (int step = 1; step < n; step *= 2) {
    Vector<float> y[n];
#pragma GCC unroll 8
    for (int i = 0; i < n / 2; ++i) {
      y[2 * i] = interleave<float, 0>(x[i], x[i + n / 2], lanes);
      y[2 * i + 1] = interleave<float, n / 2>(x[i], x[i + n / 2], lanes);
    }
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) x[i] = y[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i) store_vector(to + i * to_stride, x[i]);
}

/// to[r, c] = from[c, r] for `rows` x `cols` of `to`; strides in elements.
inline void transpose(const float* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
                      int64_t cols) {
  constexpr int64_t kTile = kLanes<float>;
  for (int64_t c = 0; c < cols; c += kTile) {
    for (int64_t r = 0; r < rows; r += kTile) {
      const float* tile = from + c * from_stride + r;
      float* turned = to + r * to_stride + c;
      if (c + kTile <= cols && r + kTile <= rows) {
        transpose_square(tile, from_stride, turned, to_stride);
        continue;
      }
      for (int64_t i = 0; i < std::min(kTile, rows - r); ++i) {
        for (int64_t j = 0; j < std::min(kTile, cols - c); ++j)
          turned[i * to_stride + j] = tile[j * from_stride + i];
      }
    }
  }
}

}  // namespace ventris
