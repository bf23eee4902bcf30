// SPDX-License-Identifier: Apache-2.0
#include "backend/cast.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/device_buffer.h"

namespace ventris {
namespace {

using testing::Buffer;

constexpr DType kAll[] = {DType::kF32, DType::kBF16, DType::kF64};

double rounded(double value, DType dtype) {
  if (dtype == DType::kF32) return static_cast<float>(value);
  if (dtype == DType::kBF16) return static_cast<float>(BF16(static_cast<float>(value)));
  return value;
}

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

TEST(Cast, TouchesOnlyTheColumnsOfItsView) {
  Context context({.threads = 2});
  const Buffer source = Buffer::random(5, 9, DType::kF32, 5);
  Buffer destination(5, 9, DType::kBF16);
  cast(context, {.source = source.view().col_range(1, 4), .destination = destination.view().col_range(3, 4)});
  for (int64_t row = 0; row < 5; ++row) {
    for (int64_t col = 0; col < 9; ++col) {
      const bool inside = col >= 3 && col < 7;
      EXPECT_EQ(destination.get(row, col), inside ? rounded(source.get(row, col - 2), DType::kBF16) : 0.0);
    }
  }
}

TEST(Cast, RefusesUnequalShapes) {
  Context context({.threads = 1});
  Buffer small(2, 3, DType::kF32);
  Buffer large(3, 2, DType::kF32);
  EXPECT_THROW(cast(context, {.source = small.view(), .destination = large.view()}), Error);
}

TEST(FillZero, SetsTheViewAndNothingElse) {
  Context context({.threads = 2});
  for (const DType dtype : kAll) {
    Buffer matrix = Buffer::random(6, 7, dtype, 1);
    const Buffer before = matrix;
    fill_zero(context, matrix.view().row_range(1, 4).col_range(2, 3));
    for (int64_t row = 0; row < 6; ++row) {
      for (int64_t col = 0; col < 7; ++col) {
        const bool inside = row >= 1 && row < 5 && col >= 2 && col < 5;
        EXPECT_EQ(matrix.get(row, col), inside ? 0.0 : before.get(row, col));
      }
    }
  }
}

}  // namespace
}  // namespace ventris
