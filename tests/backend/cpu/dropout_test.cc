// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/dropout.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/cpu/dropout.h"
#include "backend/cpu/simd.h"
#include "backend/ops/apply_dropout.h"
#include "tests/support/compare.h"

namespace ventris {
namespace {

using testing::Buffer;

const DropoutPosition kMaskPosition = {.step = 17, .row_base = 1001};
const DropoutKey kKey = {
    .rate = 0.3F, .seed = 0x123456789abcdefULL, .place = 0x500, .position = &kMaskPosition};

TEST(Dropout, TileHoldsTheNumbersOfTheDefinition) {
  for (const int64_t cols : {1, 7, 8, 9, 127, 128, 129, 513, 65'536}) {  // up to the longest sentence
    for (const int64_t rows : {1, 2, 5, 17}) {
      std::vector<uint16_t> bits(static_cast<size_t>(dropout_room(rows, cols)));
      dropout_tile(kKey, 40, rows, cols, 3, bits.data());
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < cols; ++c) {
          const auto block =
              dropout_bits(kKey, static_cast<uint32_t>(40 + r), static_cast<uint32_t>(c / 8), 3);
          ASSERT_EQ(bits[static_cast<size_t>(r * dropout_stride(cols) + c)],
                    block[static_cast<size_t>(c % 8)])
              << "row " << r << ", column " << c << " of " << rows << " x " << cols;
        }
      }
    }
  }
}

TEST(Dropout, RowHoldsTheNumbersOfTheDefinition) {
  for (const int64_t cols : {1, 8, 9, 127, 128, 129, 513, 4096}) {
    std::vector<uint16_t> bits(static_cast<size_t>(dropout_room(1, cols)));
    dropout_row(kKey, 40, cols, 3, bits.data());
    for (int64_t c = 0; c < cols; ++c) {
      const auto block = dropout_bits(kKey, 40, static_cast<uint32_t>(c / 8), 3);
      ASSERT_EQ(bits[static_cast<size_t>(c)], block[static_cast<size_t>(c % 8)])
          << "column " << c << " of " << cols;
    }
  }
}

TEST(Dropout, EveryPartOfTheKeyChangesTheNumbers) {
  const auto first = dropout_bits(kKey, 0, 0);
  DropoutKey key = kKey;
  key.seed += uint64_t{1} << 32;
  EXPECT_NE(dropout_bits(key, 0, 0), first);
  key = kKey;
  const DropoutPosition next = {.step = kMaskPosition.step + 1, .row_base = kMaskPosition.row_base};
  key.position = &next;
  EXPECT_NE(dropout_bits(key, 0, 0), first);
  key = kKey;
  key.place += 0x100;
  EXPECT_NE(dropout_bits(key, 0, 0), first);
  EXPECT_NE(dropout_bits(kKey, 1, 0), first);
  EXPECT_NE(dropout_bits(kKey, 0, 1), first);
  EXPECT_NE(dropout_bits(kKey, 0, 0, 1), first);
}

TEST(Dropout, RowsOfALaterMicroBatchHaveTheMaskOfTheirPlaceInTheGlobalBatch) {
  const DropoutPosition position = {.step = kMaskPosition.step, .row_base = kMaskPosition.row_base + 64};
  DropoutKey later = kKey;
  later.position = &position;
  EXPECT_EQ(dropout_bits(later, 5, 2), dropout_bits(kKey, 69, 2));
}

TEST(Dropout, DropsTheWantedShareAndScalesTheRest) {
  for (const float rate : {0.1F, 0.3F, 0.5F, 0.9F}) {
    DropoutKey key = kKey;
    key.rate = rate;
    Buffer x(300, 333, DType::kF32);
    for (int64_t i = 0; i < x.size(); ++i) x.set(i, 1.0);
    Context context({});
    apply_dropout(context, {.x = x.view(), .dropout = key});
    int64_t zeros = 0;
    for (int64_t i = 0; i < x.size(); ++i) {
      if (x.get(i) == 0.0) {
        ++zeros;
      } else {
        ASSERT_NEAR(x.get(i), 1.0 / (1.0 - rate), 1e-3);
      }
    }
    const double n = static_cast<double>(x.size());
    EXPECT_NEAR(static_cast<double>(zeros) / n, rate, 5.0 * std::sqrt(rate * (1.0 - rate) / n));
  }
}

TEST(Exponential, IsWithinTwoUnitsInTheLastPlace) {
  for (double v = -87.2; v < 88.3; v += 0.00137) {
    const float x = static_cast<float>(v);
    const double expected = std::exp(static_cast<double>(x));
    const double unit = std::ldexp(1.0, std::ilogb(expected) - 23);
    ASSERT_LE(std::abs(static_cast<double>(exp_approx(x)) - expected), 2.0 * unit) << "exp(" << x << ")";
  }
}

TEST(Exponential, KeepsItsEnds) {
  EXPECT_EQ(exp_approx(0.0F), 1.0F);
  EXPECT_EQ(exp_approx(-std::numeric_limits<float>::infinity()), 0.0F);
  EXPECT_EQ(exp_approx(-1000.0F), 0.0F);
  EXPECT_TRUE(std::isnan(exp_approx(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(exp_approx(std::bit_cast<float>(0x7FC00001U))));  // one that carries a number
}

}  // namespace
}  // namespace ventris
