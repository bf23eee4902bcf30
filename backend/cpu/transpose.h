// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/simd.h"

namespace ventris {

/// to[r, c] = from[c, r] in f32 for `rows` x `cols` of `to`; strides in elements. Each row of a square is
/// read once: rows of `from` that are a power of two apart may evict each other from the cache.
template <typename From>
void transpose(const From* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
               int64_t cols) {
  constexpr int kTile = kLanes<float>;
  for (int64_t c = 0; c < cols; c += kTile) {
    for (int64_t r = 0; r < rows; r += kTile) {
      const From* tile = from + c * from_stride + r;
      float* turned = to + r * to_stride + c;
      if (c + kTile <= cols && r + kTile <= rows) {
        Vector<float> x[kTile];
#pragma GCC unroll 16
        for (int i = 0; i < kTile; ++i) x[i] = load_numbers(tile + i * from_stride);
        transpose_square<float>(x);
#pragma GCC unroll 16
        for (int i = 0; i < kTile; ++i) store_vector(turned + i * to_stride, x[i]);
        continue;
      }
      for (int64_t i = 0; i < std::min<int64_t>(kTile, rows - r); ++i) {
        for (int64_t j = 0; j < std::min<int64_t>(kTile, cols - c); ++j)
          turned[i * to_stride + j] = load(tile[j * from_stride + i]);
      }
    }
  }
}

}  // namespace ventris
