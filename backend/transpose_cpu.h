#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace ventris {

/// to[r, c] = from[c, r] for `rows` x `cols` of `to`; strides in elements. Tiles are copied row by row first:
/// rows of `from` that are a power of two apart would drive each other out of the cache if they were read in
/// turn.
inline void transpose(const float* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
                      int64_t cols) {
  constexpr int64_t kTile = 16;
  alignas(64) float tile[kTile][kTile];
  for (int64_t c = 0; c < cols; c += kTile) {
    const int64_t width = std::min(kTile, cols - c);
    for (int64_t r = 0; r < rows; r += kTile) {
      const int64_t height = std::min(kTile, rows - r);
      if (width == kTile && height == kTile) {
        for (int64_t j = 0; j < kTile; ++j)
          std::memcpy(tile[j], from + (c + j) * from_stride + r, sizeof(tile[j]));
        for (int64_t i = 0; i < kTile; ++i) {
          float* row = to + (r + i) * to_stride + c;
#pragma omp simd
          for (int64_t j = 0; j < kTile; ++j) row[j] = tile[j][i];
        }
      } else {
        for (int64_t i = 0; i < height; ++i) {
          for (int64_t j = 0; j < width; ++j)
            to[(r + i) * to_stride + c + j] = from[(c + j) * from_stride + r + i];
        }
      }
    }
  }
}

}  // namespace ventris
