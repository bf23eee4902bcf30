#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace ventris {

/// JSON for a script element of an HTML page: ASCII only, without a sequence that ends the element. Bytes
/// that are not UTF-8 become U+FFFD.
std::string page_data(const nlohmann::ordered_json& json);

}  // namespace ventris
