#include "trainer/files/json_text.h"

#include <nlohmann/json.hpp>

namespace ventris {

nlohmann::json parse_json(std::string_view text) {
  using nlohmann::json;
  if (text.size() > kMaxJsonBytes) return json(json::value_t::discarded);
  return json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace ventris
