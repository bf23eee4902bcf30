// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "backend/cpu/vector.h"
#include "backend/ops/dropout.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace ventris {

/// Blocks of dropout numbers that are computed together.
inline constexpr int kDropoutLanes = 16;
/// 16-bit numbers that dropout_tile writes at a time.
inline constexpr int64_t kDropoutStep = 8 * kDropoutLanes;

/// Row stride of the numbers that dropout_tile writes.
constexpr int64_t dropout_stride(int64_t cols) {
  return (cols + 7) / 8 * 8;
}
/// Size of the output of dropout_tile in 16-bit numbers.
constexpr int64_t dropout_room(int64_t rows, int64_t cols) {
  return (rows * dropout_stride(cols) + kDropoutStep - 1) / kDropoutStep * kDropoutStep;
}

/// Words of Philox, each in the low half of a 64-bit lane: products need no shuffles. The high halves are
/// ignored.
typedef uint64_t PhiloxWords __attribute__((vector_size(kVectorBytes)));

/// The full products of the low halves.
[[gnu::always_inline]] inline PhiloxWords product_of_words(PhiloxWords x, uint32_t factor) {
#if defined(__AVX512F__)
  // Not _mm512_mul_epu32, for which g++ 12 warns of an uninitialised value.
  return (PhiloxWords)_mm512_maskz_mul_epu32(0xFF, (__m512i)x, _mm512_set1_epi64(factor));
#elif defined(__AVX2__)
  return (PhiloxWords)_mm256_mul_epu32((__m256i)x, _mm256_set1_epi64x(factor));
#else
  return (x & 0xFFFFFFFFU) * uint64_t{factor};
#endif
}

/// Philox4x32-10 (backend/device/philox.h) at kDropoutLanes counters {block[l], row[l], place, step}, written
/// one after another.
inline void philox_lanes(const uint64_t* block, const uint64_t* row, uint32_t place, uint32_t step,
                         uint64_t seed, uint16_t* bits) {
  constexpr int kLanesOfWords = sizeof(PhiloxWords) / sizeof(uint64_t);
  // Vectors of counters: more hide the latency of a round, as long as their words stay in registers or near.
  constexpr int kTogether = kVectorBytes == 64 ? 2 : 4;
  static_assert(kDropoutLanes % (kTogether * kLanesOfWords) == 0);
  uint64_t out[2 * kDropoutLanes];
  for (int first = 0; first < kDropoutLanes; first += kTogether * kLanesOfWords) {
    PhiloxWords c[kTogether][4];
#pragma GCC unroll 4
    for (int v = 0; v < kTogether; ++v) {
      std::memcpy(&c[v][0], block + first + v * kLanesOfWords, sizeof(PhiloxWords));
      std::memcpy(&c[v][1], row + first + v * kLanesOfWords, sizeof(PhiloxWords));
      c[v][2] = PhiloxWords{} + uint64_t{place};
      c[v][3] = PhiloxWords{} + uint64_t{step};
    }
    uint64_t k0 = seed;
    uint64_t k1 = seed >> 32;
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 4
      for (int v = 0; v < kTogether; ++v) {
        const PhiloxWords p0 = product_of_words(c[v][0], 0xD2511F53U);
        const PhiloxWords p1 = product_of_words(c[v][2], 0xCD9E8D57U);
        c[v][0] = (p1 >> 32) ^ c[v][1] ^ k0;
        c[v][2] = (p0 >> 32) ^ c[v][3] ^ k1;
        c[v][1] = p1;
        c[v][3] = p0;
      }
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    uint64_t halves[2][kTogether * kLanesOfWords];
#pragma GCC unroll 4
    for (int v = 0; v < kTogether; ++v) {
      const PhiloxWords low = (c[v][0] & 0xFFFFFFFFU) | c[v][1] << 32;
      const PhiloxWords high = (c[v][2] & 0xFFFFFFFFU) | c[v][3] << 32;
      std::memcpy(halves[0] + v * kLanesOfWords, &low, sizeof(low));
      std::memcpy(halves[1] + v * kLanesOfWords, &high, sizeof(high));
    }
#pragma omp simd
    for (int l = 0; l < kTogether * kLanesOfWords; ++l) {
      out[2 * (first + l)] = halves[0][l];
      out[2 * (first + l) + 1] = halves[1][l];
    }
  }
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(bits, out, sizeof(out));
}

/// The 16-bit dropout numbers (backend/ops/dropout.h) of rows [row, row + rows) and columns [0, cols): that
/// of (r, c) at bits[(r - row) * dropout_stride(cols) + c]. `bits` has room for dropout_room(rows, cols)
/// numbers, all overwritten. Requires: they are fewer than 2^24.
inline void dropout_tile(const DropoutKey& key, uint32_t row, int64_t rows, int64_t cols, uint32_t head,
                         uint16_t* bits) {
  const auto blocks = static_cast<int32_t>(dropout_stride(cols) / 8);
  const auto total = static_cast<int32_t>(rows * blocks);
  const uint32_t first_row = key.position->row_base + row;
  // So few quotients, each plus half of this, are further from an integer than they are rounded.
  const float rows_of_block = 1.0F / static_cast<float>(blocks);
  uint64_t lane_block[kDropoutLanes];
  uint64_t lane_row[kDropoutLanes];
  for (int32_t done = 0; done < total; done += kDropoutLanes) {
#pragma omp simd
    for (int32_t l = 0; l < kDropoutLanes; ++l) {
      const int32_t index = done + l;
      const auto r = static_cast<int32_t>((static_cast<float>(index) + 0.5F) * rows_of_block);
      lane_block[l] = static_cast<uint32_t>(index - r * blocks);
      lane_row[l] = first_row + static_cast<uint32_t>(r);
    }
    philox_lanes(lane_block, lane_row, key.place + head, key.position->step, key.seed,
                 bits + int64_t{8} * done);
  }
}

/// dropout_tile of one row.
inline void dropout_row(const DropoutKey& key, uint32_t row, int64_t cols, uint32_t head, uint16_t* bits) {
  const int64_t blocks = dropout_stride(cols) / 8;
  uint64_t lane_block[kDropoutLanes];
  uint64_t lane_row[kDropoutLanes];
#pragma omp simd
  for (uint64_t l = 0; l < kDropoutLanes; ++l) {
    lane_block[l] = l;
    lane_row[l] = key.position->row_base + row;
  }
  for (int64_t done = 0; done < blocks; done += kDropoutLanes) {
    philox_lanes(lane_block, lane_row, key.place + head, key.position->step, key.seed, bits + 8 * done);
#pragma omp simd
    for (uint64_t l = 0; l < kDropoutLanes; ++l) lane_block[l] += kDropoutLanes;
  }
}

}  // namespace ventris
