// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

/// Reading and writing of JSON. Sources and tests call these in place of parse() and dump(), whose templates
/// take a second of compilation wherever they are called.
namespace ventris::data {

/// Throws nlohmann::json::parse_error for text that is not JSON.
nlohmann::json read_json(std::string_view text);
nlohmann::ordered_json read_ordered_json(std::string_view text);

/// Values that are is_discarded() for text that is not JSON.
nlohmann::json try_json(std::string_view text);
nlohmann::ordered_json try_ordered_json(std::string_view text);

/// The text of a value, which may hold paths: bytes that are not UTF-8 become U+FFFD. If `indent` is not
/// negative, one line for each member.
std::string json_text(const nlohmann::json& json, int indent = -1);
std::string json_text(const nlohmann::ordered_json& json, int indent = -1);

/// As json_text, but throws nlohmann::json::type_error for bytes that are not UTF-8.
std::string utf8_json_text(const nlohmann::json& json, int indent = -1);
std::string utf8_json_text(const nlohmann::ordered_json& json, int indent = -1);

}  // namespace ventris::data
