// SPDX-License-Identifier: Apache-2.0
#include "backend/device/elementary.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

namespace ventris {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// |value - exact| in units of the last place of the double nearest to `exact`.
double units_off(double value, long double exact) {
  const auto nearest = static_cast<double>(exact);
  const double unit = std::nextafter(std::abs(nearest), kInfinity) - std::abs(nearest);
  return static_cast<double>(std::abs(static_cast<long double>(value) - exact)) / unit;
}

/// Numbers between the bounds, the same everywhere.
class Numbers {
 public:
  double between(double low, double high) {
    return low + (high - low) * (static_cast<double>(generator_() >> 11) * 0x1p-53);
  }

 private:
  std::mt19937_64 generator_{5};
};

TEST(Elementary, IsAsExactAsItSays) {
  Numbers numbers;
  for (int i = 0; i < 200'000; ++i) {
    const double x = numbers.between(-708.0, 709.0);
    ASSERT_LE(units_off(portable_exp(x), std::exp(static_cast<long double>(x))), 1.0) << x;
    const double near_zero = numbers.between(-1.0, 1.0);
    ASSERT_LE(units_off(portable_exp(near_zero), std::exp(static_cast<long double>(near_zero))), 1.0);
    const double positive = std::ldexp(numbers.between(0.5, 1.0), i % 2000 - 1000);
    ASSERT_LE(units_off(portable_log(positive), std::log(static_cast<long double>(positive))), 1.0);
    const double near_one = numbers.between(0.5, 2.0);
    ASSERT_LE(units_off(portable_log(near_one), std::log(static_cast<long double>(near_one))), 1.0);
    const double small = std::ldexp(numbers.between(0.5, 1.0), -(i % 60));
    ASSERT_LE(units_off(portable_log1p(small), std::log1p(static_cast<long double>(small))), 2.0) << small;
    const double angle = numbers.between(-1e6, 1e6) * std::ldexp(1.0, -(i % 20));
    ASSERT_LE(std::abs(portable_sin(angle) - std::sin(angle)), 0x1p-52) << angle;
    ASSERT_LE(std::abs(portable_cos(angle) - std::cos(angle)), 0x1p-52) << angle;
    const double base = numbers.between(0.01, 10000.0);
    const double exponent = numbers.between(-3.0, 3.0);
    const long double power = std::pow(static_cast<long double>(base), static_cast<long double>(exponent));
    ASSERT_LE(units_off(portable_pow(base, exponent), power), 3.0 + 2.0 * std::abs(exponent * std::log(base)))
        << base << " " << exponent;
  }
}

TEST(Elementary, TakesLogarithmsOfManyNumbersAsOfOne) {
  Numbers numbers;
  std::vector<double> x = {1.0,
                           0.0,
                           -0.0,
                           -1.0,
                           kInfinity,
                           -kInfinity,
                           std::nan(""),
                           0x1p-1074,
                           0x1.8p-1023,
                           std::numeric_limits<double>::min(),
                           std::numeric_limits<double>::max(),
                           0.5 * std::numbers::sqrt2,
                           std::nextafter(0.5 * std::numbers::sqrt2, 0.0)};
  for (int i = 0; i < 100'000; ++i) x.push_back(std::ldexp(numbers.between(0.5, 1.0), i % 2150 - 1100));
  for (const size_t n : {size_t{0}, size_t{1}, size_t{3}, size_t{13}, x.size()}) {
    std::vector<double> logs(n + 1, -7.0);
    portable_logs(x.data(), static_cast<int64_t>(n), logs.data());
    for (size_t i = 0; i < n; ++i) {
      const double one = portable_log(x[i]);
      ASSERT_TRUE(std::bit_cast<uint64_t>(logs[i]) == std::bit_cast<uint64_t>(one) ||
                  (std::isnan(logs[i]) && std::isnan(one)))
          << x[i] << " " << logs[i] << " " << one;
    }
    EXPECT_EQ(logs[n], -7.0);
  }
}

TEST(Elementary, KnowsTheEndsOfItsDomain) {
  EXPECT_EQ(portable_exp(0.0), 1.0);
  EXPECT_EQ(portable_exp(-kInfinity), 0.0);
  EXPECT_EQ(portable_exp(-746.0), 0.0);
  EXPECT_EQ(portable_exp(kInfinity), kInfinity);
  EXPECT_EQ(portable_exp(710.0), kInfinity);
  EXPECT_GT(portable_exp(-745.0), 0.0);
  EXPECT_TRUE(std::isnan(portable_exp(std::nan(""))));
  EXPECT_EQ(portable_log(1.0), 0.0);
  EXPECT_EQ(portable_log(0.0), -kInfinity);
  EXPECT_EQ(portable_log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(portable_log(-1.0)));
  EXPECT_TRUE(std::isnan(portable_log(std::nan(""))));
  EXPECT_EQ(portable_log1p(0.0), 0.0);
  EXPECT_EQ(portable_log1p(kInfinity), kInfinity);
  EXPECT_EQ(portable_pow(7.0, 0.0), 1.0);
  EXPECT_EQ(portable_sin(0.0), 0.0);
  EXPECT_EQ(portable_cos(0.0), 1.0);
  EXPECT_EQ(integer_power(0.9, 0), 1.0);
  EXPECT_EQ(integer_power(0.0, 3), 0.0);
  EXPECT_EQ(integer_power(2.0, 10), 1024.0);
  EXPECT_NEAR(integer_power(0.999, 5000), std::pow(0.999, 5000.0), 1e-14);
}

TEST(Elementary, HasTheSameBitsEverywhere) {
  Numbers numbers;
  uint64_t hash = 0xCBF29CE484222325U;  // FNV-1a over the results as 64-bit words
  const auto add = [&](double value) { hash = (hash ^ std::bit_cast<uint64_t>(value)) * 0x100000001B3U; };
  for (int i = 0; i < 20'000; ++i) {
    add(portable_exp(numbers.between(-745.0, 709.0)));
    add(portable_log(numbers.between(0.0, 1e6)));
    add(portable_log1p(numbers.between(0.0, 3.0)));
    add(portable_sin(numbers.between(-1e5, 1e5)));
    add(portable_cos(numbers.between(-1e5, 1e5)));
    const double base = numbers.between(0.1, 1e4);
    add(portable_pow(base, numbers.between(-2.0, 2.0)));
  }
  EXPECT_EQ(hash, 0xf7ba5c54ed05cf67U) << std::hex << hash;
}

}  // namespace
}  // namespace ventris
