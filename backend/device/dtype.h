// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace ventris {

/// Element types of tensors. f64 exists on CPU only, for gradient checks.
enum class DType { kF32, kBF16, kF64 };

constexpr size_t size_of(DType dtype) {
  return dtype == DType::kF32 ? 4 : dtype == DType::kBF16 ? 2 : 8;
}

const char* name_of(DType dtype);

/// The dtype of statistics, of vector parameters (bias, gamma, beta) and of parameter gradients for
/// activations of `dtype`: f64 for f64, f32 for f32 and bf16.
constexpr DType master_dtype(DType dtype) {
  return dtype == DType::kF64 ? DType::kF64 : DType::kF32;
}

/// bfloat16: the upper half of an f32. Conversion from f32 rounds to nearest, ties to even; NaN stays NaN.
struct BF16 {
  uint16_t bits = 0;

  BF16() = default;
  explicit BF16(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    const uint32_t to_nearest = 0x7FFFu + ((u >> 16) & 1u);
    const uint32_t to_quiet = ~u & 0x400000u;
    bits = static_cast<uint16_t>((u + (value == value ? to_nearest : to_quiet)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};
static_assert(sizeof(BF16) == 2);

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<BF16> {
  static constexpr DType value = DType::kBF16;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};

/// Master<T>: double for double, float otherwise (see master_dtype).
template <typename T>
struct MasterOf {
  using type = float;
};
template <>
struct MasterOf<double> {
  using type = double;
};
template <typename T>
using Master = typename MasterOf<T>::type;

}  // namespace ventris
