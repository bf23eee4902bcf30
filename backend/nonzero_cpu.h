// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace ventris {

/// Elements that are looked at together.
inline constexpr int64_t kLookedAt = 8;

#if defined(__AVX2__)
/// The lanes in a set of eight, from the first one. Not inline: such a symbol stays one for all instruction
/// sets of the program.
alignas(64) constexpr auto kLanesOfSet = [] {
  std::array<std::array<uint8_t, kLookedAt>, 256> lanes{};
  for (unsigned set = 0; set < 256; ++set) {
    int count = 0;
    for (unsigned lane = 0; lane < kLookedAt; ++lane) {
      if ((set >> lane & 1U) != 0) lanes[set][count++] = static_cast<uint8_t>(lane);
    }
  }
  return lanes;
}();
#endif

/// Appends those of x[0, kLookedAt) that are not zero, and kBytes times their index, which for x[0] is `k`.
/// Writes kLookedAt elements; returns how many count.
template <int64_t kBytes>
int64_t append_nonzero(const float* x, int64_t k, float* values, uint16_t* offsets) {
#if defined(__AVX2__)
  const __m256 all = _mm256_loadu_ps(x);
  const int set = _mm256_movemask_ps(_mm256_cmp_ps(all, _mm256_setzero_ps(), _CMP_NEQ_UQ));
  const __m128i lanes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(kLanesOfSet[set].data()));
  _mm256_storeu_ps(values, _mm256_permutevar8x32_ps(all, _mm256_cvtepu8_epi32(lanes)));
  const __m128i rows = _mm_add_epi16(_mm_cvtepu8_epi16(lanes), _mm_set1_epi16(static_cast<int16_t>(k)));
  const __m128i bytes = _mm_mullo_epi16(rows, _mm_set1_epi16(static_cast<int16_t>(kBytes)));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(offsets), bytes);
  return __builtin_popcount(static_cast<unsigned>(set));
#else
  int64_t count = 0;
  for (int64_t i = 0; i < kLookedAt; ++i) {
    values[count] = x[i];
    offsets[count] = static_cast<uint16_t>((k + i) * kBytes);
    count += x[i] != 0.0F ? 1 : 0;
  }
  return count;
#endif
}

}  // namespace ventris
