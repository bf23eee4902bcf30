// SPDX-License-Identifier: Apache-2.0
#include "backend/device/elementary.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

namespace ventris {
namespace {

constexpr double kRound = 0x1.8p52;  // adding it rounds to an integer

/// c[0] + x (c[1] + x (c[2] + ...)).
template <size_t kCount>
double polynomial(double x, const std::array<double, kCount>& c) {
  double sum = c[kCount - 1];
#pragma GCC unroll 16
  for (size_t i = kCount - 1; i > 0; --i) sum = std::fma(sum, x, c[i - 1]);
  return sum;
}

/// 1 / (first!), 1 / ((first + step)!), ..., with alternating signs if requested.
template <size_t kCount>
constexpr std::array<double, kCount> inverse_factorials(int first, int step, bool alternate) {
  std::array<double, kCount> c{};
  double factorial = 1.0;  // exact up to 22!
  for (int i = 2; i <= first; ++i) factorial *= i;
  int n = first;
  for (size_t k = 0; k < kCount; ++k) {
    c[k] = (alternate && k % 2 == 1 ? -1.0 : 1.0) / factorial;
    for (int i = 0; i < step; ++i) factorial *= ++n;
  }
  return c;
}

/// 2 / 3, 2 / 5, 2 / 7, ...
template <size_t kCount>
constexpr std::array<double, kCount> odd_inverses() {
  std::array<double, kCount> c{};
  for (size_t k = 0; k < kCount; ++k) c[k] = 2.0 / static_cast<double>(2 * k + 3);
  return c;
}

struct Quadrant {
  double rest;    // x minus the nearest multiple of pi / 2
  int64_t turns;  // that multiple
};

Quadrant reduce(double x) {
  // pi / 2 in three parts, each the double nearest to the remainder of the previous ones.
  constexpr double kHigh = 0x1.921fb54442d18p+0;
  constexpr double kMiddle = 0x1.1a62633145c07p-54;
  constexpr double kLow = -0x1.f1976b7ed8fbcp-110;
  const double turns = std::fma(x, 2.0 / std::numbers::pi, kRound) - kRound;
  double rest = std::fma(-turns, kHigh, x);
  rest = std::fma(-turns, kMiddle, rest);
  rest = std::fma(-turns, kLow, rest);
  return {rest, static_cast<int64_t>(turns)};
}

/// For |x| <= pi / 4.
double sine(double x) {
  static constexpr auto kSeries = inverse_factorials<8>(3, 2, true);
  const double square = x * x;
  return std::fma(-x * square, polynomial(square, kSeries), x);
}

double cosine(double x) {
  static constexpr auto kSeries = inverse_factorials<8>(4, 2, true);
  const double square = x * x;
  const double half = 0.5 * square;
  const double first = 1.0 - half;
  const double lost = (1.0 - first) - half;
  return first + std::fma(square * square, polynomial(square, kSeries), lost);
}

/// Whether x is positive and normal.
bool is_normal(double x) {
  return x >= std::numeric_limits<double>::min() && x <= std::numeric_limits<double>::max();
}

/// log(x 2^exponent) of a positive normal number. No branch: a loop over it becomes vector code.
inline double log_of_normal(double x, double exponent) {
  constexpr double kLn2High = 0x1.62e42feep-1;  // its products with exponents are exact
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  static constexpr auto kSeries = odd_inverses<11>();
  constexpr uint64_t kFraction = (uint64_t{1} << 52) - 1;
  constexpr uint64_t kHalf = uint64_t{1022} << 52;     // the exponent of numbers in [0.5, 1)
  constexpr uint64_t kInteger = uint64_t{1075} << 52;  // of numbers whose last place is 1
  const auto bits = std::bit_cast<uint64_t>(x);
  const double half = std::bit_cast<double>((bits & kFraction) | kHalf);
  const double halvings = std::bit_cast<double>((bits >> 52) | kInteger) - (0x1p52 + 1022.0);
  const bool small = half < 0.5 * std::numbers::sqrt2;
  const double m = small ? half * 2.0 : half;
  const double e = exponent + (small ? halvings - 1.0 : halvings);
  // log(1 + f) = 2 atanh(s) = f - f^2 / 2 + s (f^2 / 2 + z (2/3 + z (2/5 + ...)))
  // for s = f / (2 + f), z = s^2.
  const double f = m - 1.0;
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double square = 0.5 * f * f;
  const double low = std::fma(s, square + z * polynomial(z, kSeries), e * kLn2Low);
  return std::fma(e, kLn2High, f - (square - low));
}

}  // namespace

double portable_exp(double x) {
  constexpr double kLn2High = 0x1.62e42fefa39efp-1;
  constexpr double kLn2Low = 0x1.abc9e3b39803fp-56;
  static constexpr auto kSeries = inverse_factorials<13>(2, 1, false);
  if (x != x) return x;
  if (x > 709.8) return std::numeric_limits<double>::infinity();
  if (x < -745.2) return 0.0;
  const double n = std::fma(x, std::numbers::log2e, kRound) - kRound;
  const double r = std::fma(-n, kLn2Low, std::fma(-n, kLn2High, x));  // |r| <= ln(2) / 2
  const double power = 1.0 + std::fma(r * r, polynomial(r, kSeries), r);
  return std::ldexp(power, static_cast<int>(n));
}

double portable_log(double x) {
  if (x != x || x == std::numeric_limits<double>::infinity()) return x;
  if (x < 0.0) return std::numeric_limits<double>::quiet_NaN();
  if (x == 0.0) return -std::numeric_limits<double>::infinity();
  constexpr double kScale = 0x1p54;  // makes the least positive number a normal one
  return is_normal(x) ? log_of_normal(x, 0.0) : log_of_normal(x * kScale, -54.0);
}

void portable_logs(const double* x, int64_t n, double* logs) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) logs[i] = log_of_normal(x[i], 0.0);
  for (int64_t i = 0; i < n; ++i) {
    if (!is_normal(x[i])) logs[i] = portable_log(x[i]);
  }
}

double portable_log1p(double x) {
  const double sum = 1.0 + x;
  if (sum == std::numeric_limits<double>::infinity()) return sum;
  const double lost = x < 1.0 ? x - (sum - 1.0) : 1.0 - (sum - x);
  return portable_log(sum) + lost / sum;
}

double portable_pow(double x, double y) {
  return y == 0.0 ? 1.0 : portable_exp(y * portable_log(x));
}

double integer_power(double base, int64_t exponent) {
  double power = 1.0;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 == 1) power *= base;
  }
  return power;
}

double portable_sin(double x) {
  const auto [rest, turns] = reduce(x);
  const double value = (turns & 1) != 0 ? cosine(rest) : sine(rest);
  return (turns & 2) != 0 ? -value : value;
}

double portable_cos(double x) {
  const auto [rest, turns] = reduce(x);
  const double value = (turns & 1) != 0 ? sine(rest) : cosine(rest);
  return ((turns + 1) & 2) != 0 ? -value : value;
}

}  // namespace ventris
