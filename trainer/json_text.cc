// SPDX-License-Identifier: Apache-2.0
#include "trainer/json_text.h"

#include <nlohmann/json.hpp>

namespace ventris {

nlohmann::json parse_json(std::string_view text) {
  if (text.size() > kMaxJsonBytes) return nlohmann::json(nlohmann::json::value_t::discarded);
  return data::try_json(text);
}

}  // namespace ventris
