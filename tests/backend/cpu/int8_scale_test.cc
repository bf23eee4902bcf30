// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/int8_scale.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace ventris {
namespace {

/// Finite numbers of all magnitudes, by their bits.
std::vector<float> finite_numbers(uint32_t seed, size_t count) {
  std::mt19937 generator(seed);
  std::vector<float> numbers;
  while (numbers.size() < count) {
    const float number = std::bit_cast<float>(static_cast<uint32_t>(generator()));
    if (std::isfinite(number)) numbers.push_back(number);
  }
  return numbers;
}

const float kGreatest = std::numeric_limits<float>::max();
const std::vector<float> kEdges = {0.0F,
                                   std::numeric_limits<float>::denorm_min(),
                                   std::numeric_limits<float>::min(),
                                   1e-35F,
                                   std::nextafter(1e-35F, 1.0F),
                                   1.0F,
                                   127.0F,
                                   std::nextafter(127.0F, 0.0F),
                                   std::nextafter(127.0F, 128.0F),
                                   0x1p100F,
                                   kGreatest / 2};

TEST(Int8Scale, HasFewBitsAndIsTheLeastThatHoldsTheLargest) {
  std::vector<float> all = finite_numbers(1, 100000);
  all.insert(all.end(), kEdges.begin(), kEdges.end());
  for (const float number : all) {
    const float largest = std::fabs(number);
    if (largest > kGreatest / 2) continue;
    const float scale = int8_scale(largest);
    ASSERT_EQ(std::bit_cast<uint32_t>(scale) & 0xFFU, 0U) << largest;
    if (largest <= 1e-35F) {
      ASSERT_EQ(scale, 0.0F) << largest;
      ASSERT_EQ(int8_inverse(scale), 0.0F);
      continue;
    }
    ASSERT_GE(scale, std::numeric_limits<float>::min()) << largest;
    ASSERT_TRUE(std::isfinite(int8_inverse(scale))) << largest;
    ASSERT_GE(static_cast<double>(scale) * 127, static_cast<double>(largest));
    const float less = std::bit_cast<float>(std::bit_cast<uint32_t>(scale) - 0x100U);
    ASSERT_LT(static_cast<double>(less) * 127, static_cast<double>(largest));
  }
}

TEST(Int8Scale, IntegersAreTheNearestAndWithinTheBounds) {
  std::mt19937 generator(2);
  std::normal_distribution<float> normal;
  for (int row = 0; row < 2000; ++row) {
    const float magnitude = std::ldexp(1.0F, static_cast<int>(generator() % 200) - 100);
    std::vector<float> x(37);
    float largest = 0.0F;
    for (float& value : x) {
      value = normal(generator) * magnitude;
      largest = std::max(largest, std::fabs(value));
    }
    const float scale = int8_scale(largest);
    int max = 0;
    for (const float value : x) {
      const int q = int8_quantized(value, int8_inverse(scale));
      max = std::max(max, std::abs(q));
      ASSERT_LE(std::fabs(static_cast<double>(value) - static_cast<double>(scale) * q),
                0.5001 * static_cast<double>(scale));
    }
    ASSERT_EQ(max, 127);
  }
  EXPECT_EQ(int8_quantized(1000.0F, 1.0F), 127);
  EXPECT_EQ(int8_quantized(-1000.0F, 1.0F), -127);
  EXPECT_EQ(int8_quantized(2.5F, 1.0F), 2);  // ties to even
  EXPECT_EQ(int8_quantized(-3.5F, 1.0F), -4);
  EXPECT_EQ(int8_quantized(kGreatest, 0.0F), 0);
}

// What a file of 8-bit weights needs: integers and scale come back from the numbers that they stand for.
TEST(Int8Scale, WhatWasQuantisedOnceIsQuantisedToTheSameAgain) {
  std::vector<float> largest_of_rows = finite_numbers(3, 20000);
  largest_of_rows.insert(largest_of_rows.end(), kEdges.begin(), kEdges.end());
  std::mt19937 generator(4);
  std::uniform_real_distribution<float> share(-1.0F, 1.0F);
  for (const float number : largest_of_rows) {
    const float largest = std::fabs(number);
    if (largest > kGreatest / 2) continue;
    const float scale = int8_scale(largest);
    float largest_again = 0.0F;
    std::vector<int> q;
    for (int i = 0; i < 9; ++i) {
      q.push_back(int8_quantized(i == 0 ? number : largest * share(generator), int8_inverse(scale)));
      largest_again = std::max(largest_again, std::fabs(scale * static_cast<float>(q.back())));
    }
    ASSERT_EQ(int8_scale(largest_again), scale) << largest;
    for (const int value : q) {
      const float restored = scale * static_cast<float>(value);
      ASSERT_EQ(static_cast<double>(restored), static_cast<double>(scale) * value);
      ASSERT_EQ(int8_quantized(restored, int8_inverse(scale)), value) << largest;
    }
  }
}

}  // namespace
}  // namespace ventris
