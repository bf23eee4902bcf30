// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/row_order.h"

#include <algorithm>
#include <array>
#include <utility>

#include "backend/device/error.h"

namespace ventris {
namespace {

constexpr int kDigitBits = 11;
constexpr uint32_t kDigits = 1U << kDigitBits;

}  // namespace

/// Sorts by one digit after the other, the lowest first; every pass keeps the order of rows with equal
/// digits.
void order_rows(std::span<const int32_t> index, std::span<int32_t> order, std::vector<int32_t>& room) {
  VENTRIS_CHECK(order.size() == index.size(), "an order of {} rows, {} expected", order.size(), index.size());
  uint32_t max = 0;
  for (const int32_t i : index) max = std::max(max, static_cast<uint32_t>(i));
  int passes = 1;
  while (passes * kDigitBits < 32 && max >> (passes * kDigitBits) != 0) ++passes;
  if (passes > 1) room.resize(index.size());
  std::span<const int32_t> from;  // none: the rows as they are
  for (int pass = 0; pass < passes; ++pass) {
    const auto digit = [&](size_t row) {
      return static_cast<uint32_t>(index[row]) >> (pass * kDigitBits) & (kDigits - 1);
    };
    std::array<int32_t, kDigits> places = {};  // of the next row of each digit
    for (size_t row = 0; row < index.size(); ++row) ++places[digit(row)];
    int32_t next = 0;
    for (int32_t& place : places) next += std::exchange(place, next);
    const std::span<int32_t> to = (passes - pass) % 2 == 1 ? order : std::span<int32_t>(room);
    for (size_t i = 0; i < index.size(); ++i) {
      const auto row = from.empty() ? i : static_cast<size_t>(from[i]);
      to[static_cast<size_t>(places[digit(row)]++)] = static_cast<int32_t>(row);
    }
    from = to;
  }
}

std::vector<int32_t> order_of_rows(std::span<const int32_t> index) {
  std::vector<int32_t> order(index.size()), room;
  order_rows(index, order, room);
  return order;
}

}  // namespace ventris
