#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "backend/dropout.h"

namespace ventris {

/// Blocks of dropout numbers that are computed together.
inline constexpr int kDropoutLanes = 16;
/// 16-bit numbers that dropout_tile writes at a time.
inline constexpr int64_t kDropoutStep = 8 * kDropoutLanes;

/// Distance between rows of the numbers that dropout_tile writes.
constexpr int64_t dropout_stride(int64_t cols) {
  return (cols + 7) / 8 * 8;
}
/// Room in 16-bit numbers that dropout_tile needs.
constexpr int64_t dropout_room(int64_t rows, int64_t cols) {
  return (rows * dropout_stride(cols) + kDropoutStep - 1) / kDropoutStep * kDropoutStep;
}

/// Philox4x32-10 (backend/philox.h) at kDropoutLanes counters {block[l], row[l], place, step}, written one
/// after another. The words are held in 64-bit lanes, so that products need no shuffles; c1 and c3 keep a
/// product whole, of which only the low half counts.
inline void philox_lanes(const uint64_t* block, const uint64_t* row, uint32_t place, uint32_t step,
                         uint64_t seed, uint16_t* bits) {
  constexpr int n = kDropoutLanes;
  constexpr uint64_t kLow = 0xFFFFFFFFU;
  uint64_t c0[n], c1[n], c2[n], c3[n];
  std::copy_n(block, n, c0);
  std::copy_n(row, n, c1);
  std::fill_n(c2, n, place);
  std::fill_n(c3, n, step);
  uint64_t k0 = seed & kLow;
  uint64_t k1 = seed >> 32;
  for (int round = 0; round < 10; ++round) {
#pragma omp simd
    for (int l = 0; l < n; ++l) {
      const uint64_t p0 = uint64_t{0xD2511F53U} * c0[l];
      const uint64_t p1 = uint64_t{0xCD9E8D57U} * c2[l];
      c0[l] = ((p1 >> 32) ^ c1[l] ^ k0) & kLow;
      c1[l] = p1;
      c2[l] = ((p0 >> 32) ^ c3[l] ^ k1) & kLow;
      c3[l] = p0;
    }
    k0 = (k0 + 0x9E3779B9U) & kLow;
    k1 = (k1 + 0xBB67AE85U) & kLow;
  }
  uint64_t out[2 * n];
#pragma omp simd
  for (int l = 0; l < n; ++l) {
    out[2 * l] = c0[l] | c1[l] << 32;
    out[2 * l + 1] = c2[l] | c3[l] << 32;
  }
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(bits, out, sizeof(out));
}

/// The 16-bit dropout numbers (backend/dropout.h) of rows [row, row + rows) and columns [0, cols): that of
/// (r, c) at bits[(r - row) * dropout_stride(cols) + c]. `bits` has room for dropout_room(rows, cols)
/// numbers, all overwritten.
inline void dropout_tile(const DropoutKey& key, uint32_t row, int64_t rows, int64_t cols, uint32_t head,
                         uint16_t* bits) {
  const uint32_t blocks = static_cast<uint32_t>(dropout_stride(cols) / 8);
  uint64_t lane_block[kDropoutLanes];
  uint64_t lane_row[kDropoutLanes];
  uint32_t block = 0;
  uint32_t counter_row = key.position->row_base + row;
  const uint32_t step = key.position->step;
  const int64_t total = rows * blocks;
  for (int64_t done = 0; done < total; done += kDropoutLanes) {
    if (block + kDropoutLanes <= blocks) {
      for (int l = 0; l < kDropoutLanes; ++l) {
        lane_block[l] = block + static_cast<uint32_t>(l);
        lane_row[l] = counter_row;
      }
      block += kDropoutLanes;
      if (block == blocks) {
        block = 0;
        ++counter_row;
      }
    } else {
      for (int l = 0; l < kDropoutLanes; ++l) {
        lane_block[l] = block;
        lane_row[l] = counter_row;
        if (++block == blocks) {
          block = 0;
          ++counter_row;
        }
      }
    }
    philox_lanes(lane_block, lane_row, key.place + head, step, key.seed, bits + 8 * done);
  }
}

/// dropout_tile of one row.
inline void dropout_row(const DropoutKey& key, uint32_t row, int64_t cols, uint32_t head, uint16_t* bits) {
  dropout_tile(key, row, 1, cols, head, bits);
}

}  // namespace ventris
