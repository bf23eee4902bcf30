// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

namespace ventris {

/// Stores the number of a JSON value in `to` if a T can represent it: an integer in T's range, or for a real
/// T any number that is finite in it. Returns false, with `to` unchanged, for any other value: integers are
/// never truncated.
template <typename Json, typename T>
bool read_number(const Json& from, T& to) {
  static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>);
  if constexpr (std::is_floating_point_v<T>) {
    if (!from.is_number()) return false;
    const auto value = static_cast<T>(from.template get<double>());
    if (!std::isfinite(value)) return false;
    to = value;
    return true;
  } else {
    using Limits = std::numeric_limits<T>;
    if (!from.is_number_integer()) return false;
    if (from.is_number_unsigned()) {
      const auto value = from.template get<uint64_t>();
      if (value > static_cast<uint64_t>(Limits::max())) return false;
      to = static_cast<T>(value);
      return true;
    }
    const auto value = from.template get<int64_t>();  // below zero, or small enough for an int64_t
    if (std::is_unsigned_v<T> && value < 0) return false;
    if (std::is_signed_v<T> &&
        (value < static_cast<int64_t>(Limits::min()) || value > static_cast<int64_t>(Limits::max()))) {
      return false;
    }
    to = static_cast<T>(value);
    return true;
  }
}

/// Description of the values that read_number() accepts for a T, for a message.
template <typename T>
std::string expected_number() {
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_floating_point_v<T>) {
    return fmt::format("a number from {} to {}", Limits::lowest(), Limits::max());
  } else {
    return fmt::format("an integer from {} to {}", Limits::min(), Limits::max());
  }
}

}  // namespace ventris
