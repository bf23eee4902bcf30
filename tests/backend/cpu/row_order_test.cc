// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/row_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "backend/device/error.h"

namespace ventris {
namespace {

/// By another sort.
std::vector<int32_t> sorted_rows(const std::vector<int32_t>& index) {
  std::vector<int32_t> rows(index.size());
  std::iota(rows.begin(), rows.end(), 0);
  const auto key = [&](int32_t row) { return static_cast<uint32_t>(index[static_cast<size_t>(row)]); };
  std::stable_sort(rows.begin(), rows.end(), [&](int32_t a, int32_t b) { return key(a) < key(b); });
  return rows;
}

TEST(RowOrder, IsThatOfAStableSort) {
  // One, two and three digits of 11 bits.
  for (const uint32_t values : {1U, 5U, 2048U, 2049U, 37000U, 1U << 22, (1U << 22) + 1, 0x7FFFFFFFU, 0U}) {
    std::mt19937 generator(values);
    for (const size_t rows : {0, 1, 2, 31, 1000, 5000}) {
      SCOPED_TRACE(::testing::Message() << rows << " rows, " << values << " values");
      std::vector<int32_t> index(rows);
      for (int32_t& i : index) i = static_cast<int32_t>(values == 0 ? generator() : generator() % values);
      if (rows > 2) index[0] = index[rows / 2] = static_cast<int32_t>(values - 1);
      EXPECT_EQ(order_of_rows(index), sorted_rows(index));
    }
  }
}

TEST(RowOrder, SharesItsRoom) {
  std::vector<int32_t> room;
  for (const size_t rows : {7, 3, 9}) {
    std::vector<int32_t> index(rows), order(rows);
    for (size_t i = 0; i < rows; ++i) index[i] = static_cast<int32_t>(i * 7919 % 10) * 3000;
    order_rows(index, order, room);
    EXPECT_EQ(order, sorted_rows(index));
  }
}

TEST(RowOrder, RefusesAnotherNumberOfRows) {
  std::vector<int32_t> room, order(2);
  EXPECT_THROW(order_rows(std::vector<int32_t>{1, 2, 3}, order, room), Error);
}

}  // namespace
}  // namespace ventris
