// SPDX-License-Identifier: Apache-2.0
#include "data/io/json_text.h"

#include <nlohmann/json.hpp>

namespace ventris::data {
namespace {

template <typename Json>
std::string text_of(const Json& json, int indent, typename Json::error_handler_t errors) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, errors);
}

}  // namespace

nlohmann::json read_json(std::string_view text) {
  return nlohmann::json::parse(text);
}
nlohmann::ordered_json read_ordered_json(std::string_view text) {
  return nlohmann::ordered_json::parse(text);
}

nlohmann::json try_json(std::string_view text) {
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
}
nlohmann::ordered_json try_ordered_json(std::string_view text) {
  return nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::string json_text(const nlohmann::json& json, int indent) {
  return text_of(json, indent, nlohmann::json::error_handler_t::replace);
}
std::string json_text(const nlohmann::ordered_json& json, int indent) {
  return text_of(json, indent, nlohmann::ordered_json::error_handler_t::replace);
}

std::string utf8_json_text(const nlohmann::json& json, int indent) {
  return text_of(json, indent, nlohmann::json::error_handler_t::strict);
}
std::string utf8_json_text(const nlohmann::ordered_json& json, int indent) {
  return text_of(json, indent, nlohmann::ordered_json::error_handler_t::strict);
}

}  // namespace ventris::data
