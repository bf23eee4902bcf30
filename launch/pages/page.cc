// SPDX-License-Identifier: Apache-2.0
#include "launch/pages/page.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "backend/device/error.h"

namespace ventris {
namespace {

/// JSON for a script element: without a sequence that ends the element.
std::string script_data(const nlohmann::ordered_json& json) {
  const std::string text =
      json.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::ordered_json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c == '<' || c == '>' || c == '&') {
      safe += c == '<' ? "\\u003c" : c == '>' ? "\\u003e" : "\\u0026";
    } else {
      safe += c;
    }
  }
  return safe;
}

}  // namespace

std::string page_with(const char* page, const nlohmann::ordered_json& data) {
  constexpr std::string_view kPlace = "DATA</script>";
  constexpr std::string_view kEnd = "</script>";
  std::string filled = page;
  const size_t at = filled.find(kPlace);
  VENTRIS_CHECK(at != std::string::npos, "a page has no place for its data");
  return filled.replace(at, kPlace.size() - kEnd.size(), script_data(data));
}

}  // namespace ventris
