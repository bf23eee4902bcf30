// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

/// Quantisation of numbers to 8-bit integers: x is about scale * q, |q| <= 127, with one scale for a row of
/// activations or for the weights of one output. Symmetric, as in intgemm and CTranslate2.
namespace ventris {

inline constexpr float kInt8Most = 127.0F;

/// The smallest number of at most 16 significant bits that is not below largest / 127; 0 for 0. So scale * q
/// is exact in f32, and a second quantisation gives the same integers and scale. `largest`: finite, not
/// negative. If the scale would not be a normal number, it and all q are 0.
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

/// 1 / scale, or 0 for 0: the factor of quantized().
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
