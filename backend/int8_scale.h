#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

/// How numbers become 8-bit integers for products of whole numbers: x is about scale * q, |q| <= 127, with
/// one scale for a row of activations or for the weights of one output. Symmetric, as intgemm's and
/// CTranslate2's.
namespace ventris {

inline constexpr float kInt8Most = 127.0F;

/// The least number of at most 16 significant bits that is not below largest / 127; 0 for 0. So scale * q
/// is exact in f32, and numbers that were quantised once are quantised to the same again. `largest`: finite,
/// not negative; where the scale would not be a normal number it is 0, and all q are.
inline float int8_scale(float largest) {
  constexpr uint32_t kDropped = (1U << 8) - 1;  // of 24 bits
  constexpr float kMin = 1e-35F;
  if (!(largest > kMin)) return 0.0F;
  const auto up = [](float x) {
    return std::bit_cast<float>((std::bit_cast<uint32_t>(x) + kDropped) & ~kDropped);
  };
  const float scale = up(largest / kInt8Most);
  // The quotient may have been rounded down to a number of few bits.
  return scale * kInt8Most < largest ? up(std::nextafter(scale, INFINITY)) : scale;
}

/// 1 / scale, or 0 for 0: what quantized() multiplies by.
inline float int8_inverse(float scale) {
  return scale > 0.0F ? 1.0F / scale : 0.0F;
}

/// The nearest integer, ties to even, within [-127, 127].
inline int8_t int8_quantized(float x, float inverse) {
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  const float q = (x * inverse + kRound) - kRound;
  return static_cast<int8_t>(q > kInt8Most ? kInt8Most : q < -kInt8Most ? -kInt8Most : q);
}

}  // namespace ventris
