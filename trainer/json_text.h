// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "data/io/file_format.h"
#include "data/io/json_text.h"

namespace ventris {

/// The maximum length of a JSON text: configurations and probes take a few KiB, and a tree of JSON values
/// takes up to about twenty times the memory of its text.
constexpr size_t kMaxJsonBytes = size_t{64} << 10;

/// A value that is_discarded() for text that is not JSON or longer than kMaxJsonBytes.
nlohmann::json parse_json(std::string_view text);

/// Throws data::NewerFormat if the value, of the file `path`, is an object that names a later format of ours
/// than this program reads.
template <typename Json>
void refuse_newer_format(const Json& value, const std::string& path) {
  if (!value.is_object() || !value.contains(data::kFormatKey)) return;
  const Json& format = value[data::kFormatKey];
  if (format.is_string()) data::refuse_newer_format(format.template get<std::string>(), path);
}

using data::json_text;

/// The text of a member of an object; "" if it has none with that key, or one that is no text.
template <typename Json>
std::string text_in(const Json& object, const char* key) {
  return object.contains(key) && object[key].is_string() ? object[key].template get<std::string>() : "";
}

}  // namespace ventris
