// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <string>
#include <type_traits>
#include <vector>

#include "trainer/files/json_number.h"

namespace ventris {

/// A setting as a JSON value: a text, a list of texts, true or false, or a number; of a float the shortest
/// decimal that reads back as the same f32: 0.1, not 0.10000000149.
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
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
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
    return expected_number<T>();
  }
}

}  // namespace ventris
