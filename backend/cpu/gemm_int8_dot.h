// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include "backend/cpu/vector.h"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/// Sums of products of 8-bit integers, exact with any instructions.
namespace ventris {

using Int8Sums = VectorOf<float>::index;  // 32 bits

/// Whether the processor may have VNNI, which multiplies unsigned by signed bytes; detected at run time
/// (processor_has_vnni() of backend/device/instruction_set.h).
#if defined(__AVX2__)
inline constexpr bool kMayHaveVnni = true;
#else
inline constexpr bool kMayHaveVnni = false;
#endif

/// Whether add_products() without VNNI also needs the magnitudes of x.
#if defined(__AVX2__)
inline constexpr bool kWantsMagnitudes = true;
#else
inline constexpr bool kWantsMagnitudes = false;
#endif

/// sum + x[0] * y[0] + x[1] * y[1] + x[2] * y[2] + x[3] * y[3] in each lane of 32 bits: y are signed bytes
/// from -127 to 127; `four` holds x, the same in all lanes, also signed, or unsigned with kVnni; `magnitudes`
/// holds |x| if needed.
template <bool kVnni>
[[gnu::always_inline]] inline Int8Sums add_products(Int8Sums sum, int32_t four,
                                                    [[maybe_unused]] int32_t magnitudes, Int8Sums y) {
  const Int8Sums x = four - Int8Sums{};
#if defined(__AVX512F__)
  if constexpr (kVnni) {
    // Not the intrinsic: the surrounding code is also compiled for processors without VNNI.
    asm("vpdpbusd %[y], %[x], %[sum]" : [sum] "+v"(sum) : [x] "v"(x), [y] "v"(y));
    return sum;
  } else {
    const auto bytes = (__m512i)x;
    const __m512i signed_y =
        _mm512_mask_sub_epi8((__m512i)y, _mm512_movepi8_mask(bytes), _mm512_setzero_si512(), (__m512i)y);
    // Two products are at most 2 * 127 * 127 together, which 16 bits hold.
    const __m512i pairs = _mm512_maddubs_epi16(_mm512_set1_epi32(magnitudes), signed_y);
    return sum + (Int8Sums)_mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
  }
#elif defined(__AVX2__)
  if constexpr (kVnni) {
    asm("%{vex%} vpdpbusd %[y], %[x], %[sum]" : [sum] "+x"(sum) : [x] "x"(x), [y] "x"(y));
    return sum;
  } else {
    const auto bytes = (__m256i)x;
    const __m256i pairs =
        _mm256_maddubs_epi16(_mm256_set1_epi32(magnitudes), _mm256_sign_epi8((__m256i)y, bytes));
    return sum + (Int8Sums)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  }
#elif defined(__aarch64__)
  static_assert(!kVnni);
  const auto a = (int8x16_t)x;
  const auto b = (int8x16_t)y;
#if defined(__ARM_FEATURE_DOTPROD)
  return (Int8Sums)vdotq_s32((int32x4_t)sum, a, b);
#else
  const int16x8_t low = vmull_s8(vget_low_s8(a), vget_low_s8(b));
  const int16x8_t high = vmull_high_s8(a, b);
  return (Int8Sums)vpadalq_s16((int32x4_t)sum, vpaddq_s16(low, high));
#endif
#else
  static_assert(!kVnni);
  for (int shift = 24; shift >= 0; shift -= 8) sum += (x << shift >> 24) * (y << shift >> 24);
  return sum;
#endif
}

}  // namespace ventris
