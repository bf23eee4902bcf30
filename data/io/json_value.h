// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace ventris::data {

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
  } else {
    if (!from.is_number_integer()) return false;
    const bool fits = from.is_number_unsigned() ? std::in_range<T>(from.template get<uint64_t>())
                                                : std::in_range<T>(from.template get<int64_t>());
    if (!fits) return false;
    to = from.template get<T>();
  }
  return true;
}

/// A setting as a JSON value: a text, a list of texts or numbers, true or false, or a number; of a float the
/// shortest decimal that reads back as the same f32: 0.1, not 0.10000000149.
template <typename Json, typename T>
Json to_json_value(const T& value) {
  if constexpr (std::is_same_v<T, float>) {
    return std::stod(fmt::format("{}", value));
  } else {
    return value;
  }
}

/// False, with `to` unchanged, if the JSON value is not of that type, or out of its range.
template <typename Json, typename T>
bool read_json_value(const Json& from, T& to) {
  if constexpr (std::is_same_v<T, std::string>) {
    if (!from.is_string()) return false;
    to = from.template get<std::string>();
    return true;
  } else if constexpr (requires { typename T::allocator_type; }) {  // a list
    if (!from.is_array()) return false;
    T read(from.size());
    for (size_t i = 0; i < read.size(); ++i)
      if (!read_json_value(from[i], read[i])) return false;
    to = read;
    return true;
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!from.is_boolean()) return false;
    to = from.template get<bool>();
    return true;
  } else {
    return read_number(from, to);
  }
}

/// Description of the values that read_json_value() accepts for a T, for a message.
template <typename T>
std::string expected_json_value() {
  if constexpr (std::is_same_v<T, bool>) {
    return "true or false";
  } else if constexpr (std::is_same_v<T, std::string>) {
    return "a text";
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    return "a list of texts";
  } else {
    using Limits = std::numeric_limits<T>;
    const char* const kind = std::is_floating_point_v<T> ? "a number" : "an integer";
    return fmt::format("{} from {} to {}", kind, Limits::lowest(), Limits::max());
  }
}

}  // namespace ventris::data
