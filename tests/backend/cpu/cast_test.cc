// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/cast.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/device_buffer.h"

namespace ventris {
namespace {

using testing::Buffer;

TEST(BF16, RoundsToNearestWithTiesToEven) {
  const auto round_trip = [](float value) { return static_cast<float>(BF16(value)); };
  EXPECT_EQ(round_trip(1.0F), 1.0F);
  EXPECT_EQ(round_trip(1.0F + 0x1p-8F), 1.0F);                // tie, down to even
  EXPECT_EQ(round_trip(1.0F + 3 * 0x1p-8F), 1.0F + 0x1p-6F);  // tie, up to even
  EXPECT_EQ(round_trip(1.0F + 0x1.02p-8F), 1.0F + 0x1p-7F);
  EXPECT_EQ(round_trip(-0.0F), 0.0F);
  EXPECT_TRUE(std::signbit(round_trip(-0.0F)));
  EXPECT_EQ(round_trip(std::numeric_limits<float>::max()), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(round_trip(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(round_trip(std::bit_cast<float>(0x7F800001u))));
}

TEST(Cast, RefusesUnequalShapes) {
  Context context({.threads = 1});
  Buffer small(2, 3, DType::kF32);
  Buffer large(3, 2, DType::kF32);
  EXPECT_THROW(cast(context, {.source = small.view(), .destination = large.view()}), Error);
}

}  // namespace
}  // namespace ventris
