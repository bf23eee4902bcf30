// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "backend/cpu/lane_sums.h"
#include "backend/device/dtype.h"
#include "backend/device/elementary.h"

/// Building blocks of the CPU kernels, written so that the compiler turns loops over them (`#pragma omp
/// simd`) into vector code for its target instruction set. Multiplications and additions are fused only by
/// std::fma, and sums over a row have a fixed number of lanes: f32 gives the same bits with any instruction
/// set and compiler.
namespace ventris {

/// Loads and stores of activations in the type of sums: float for f32 and bf16, double for f64.
inline float load(float value) {
  return value;
}
inline double load(double value) {
  return value;
}
inline float load(BF16 value) {
  return static_cast<float>(value);
}
inline void store(float& to, float value) {
  to = value;
}
inline void store(double& to, double value) {
  to = value;
}
inline void store(BF16& to, float value) {
  to = BF16(value);
}

/// kLanes<Master<T>> activations in the type of the sums.
template <typename T>
[[gnu::always_inline]] inline Vector<Master<T>> load_numbers(const T* from) {
  if constexpr (std::is_same_v<T, BF16>) {
    typedef uint16_t Halves __attribute__((vector_size(kVectorBytes / 2)));
    Halves halves;
    std::memcpy(&halves, from, sizeof(halves));
    return std::bit_cast<Vector<float>>(__builtin_convertvector(halves, VectorOf<float>::index) << 16);
  } else {
    return load_vector(from);
  }
}

/// Calls body(T{}) with the element type of `dtype`.
template <typename Body>
void dispatch_dtype(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kF32:
      return body(float{});
    case DType::kBF16:
      return body(BF16{});
    case DType::kF64:
      return body(double{});
  }
}

inline constexpr float kMaxExponent = 88.3F;  // of e^x: above, 2^n would not be finite

/// e^x within 2 units in the last place for x in [-87.3, kMaxExponent]; 0 below, NaN for NaN. No branch, no
/// table.
inline float exp_of_limited(float x) {
  constexpr float kMin = -87.3F;  // below, the result would not be a normal number
  constexpr float kLog2E = 1.44269504F;
  constexpr float kLn2High = 0.693359375F;  // few bits: n * kLn2High is exact
  constexpr float kLn2Low = -2.12194440e-4F;
  // 1.5 * 2^23 + 127: adding it rounds to an integer, kept in the low bits plus the bias of an exponent.
  constexpr float kRound = 12583039.0F;
  const float shifted = std::fma(x, kLog2E, kRound);
  const float n = shifted - kRound;
  const float r = std::fma(-n, kLn2Low, std::fma(-n, kLn2High, x));  // |r| <= ln(2) / 2
  float p = 1.9875691500e-4F;
  p = std::fma(p, r, 1.3981999507e-3F);
  p = std::fma(p, r, 8.3334519073e-3F);
  p = std::fma(p, r, 4.1665795894e-2F);
  p = std::fma(p, r, 1.6666665459e-1F);
  p = std::fma(p, r, 5.0000001201e-1F);
  p = std::fma(p, r * r, r + 1.0F);
  const float power = std::bit_cast<float>(std::bit_cast<uint32_t>(shifted) << 23);  // 2^n
  return x < kMin ? 0.0F : p * power;
}
inline double exp_of_limited(double x) {
  return portable_exp(x);
}

/// exp_of_limited(), but for f32 e^kMaxExponent above it.
inline float exp_approx(float x) {
  return exp_of_limited(x > kMaxExponent ? kMaxExponent : x);
}
inline double exp_approx(double x) {
  return portable_exp(x);
}

/// Largest of x[0, n), or -infinity. NaN may be ignored.
template <typename T>
Master<T> row_max(const T* x, int64_t n) {
  using M = Master<T>;
  constexpr int kMaxLanes = 64;
  M lanes[kMaxLanes];
  std::fill_n(lanes, kMaxLanes, -std::numeric_limits<M>::infinity());
  const int64_t whole = n / kMaxLanes * kMaxLanes;
  for (int64_t i = 0; i < whole; i += kMaxLanes) {
#pragma omp simd
    for (int l = 0; l < kMaxLanes; ++l) {
      const M value = load(x[i + l]);
      lanes[l] = value > lanes[l] ? value : lanes[l];
    }
  }
  M largest = *std::max_element(lanes, lanes + kMaxLanes);
  for (int64_t i = whole; i < n; ++i) largest = std::max(largest, static_cast<M>(load(x[i])));
  return largest;
}

/// Sum of x[0, n).
template <typename T>
Master<T> row_sum(const T* x, int64_t n) {
  using M = Master<T>;
  if constexpr (std::is_same_v<T, M>) return lane_sum(x, n);
  return lane_sum<M>(n, [&](int64_t i) { return load(x[i]); });
}

/// Sum of e^(x[i] - shift), of exponents up to 0, over [0, n): blocks in Master<T>, their sums in f64.
template <typename T>
double row_exp_sum(const T* x, int64_t n, Master<T> shift) {
  using M = Master<T>;
  constexpr int64_t kBlock = 1024;
  double total = 0.0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t length = std::min(n - begin, kBlock);
    total += static_cast<double>(
        lane_sum<M>(length, [&](int64_t i) { return exp_of_limited(load(x[begin + i]) - shift); }));
  }
  return total;
}

}  // namespace ventris
