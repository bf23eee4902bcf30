#include "trainer/marian_names.h"

#include <fmt/format.h>

#include <map>
#include <regex>

#include "backend/error.h"

namespace ventris {
namespace {

/// The prefix of a sublayer, and of its LayerNorm.
const std::map<std::string, std::pair<std::string, std::string>>& sublayers() {
  static const std::map<std::string, std::pair<std::string, std::string>> names = {
      {"self_attention", {"self", "self_Wo"}},
      {"cross_attention", {"context", "context_Wo"}},
      {"feed_forward", {"ffn", "ffn_ffn"}}};
  return names;
}

const std::map<std::string, std::string>& linears() {
  static const std::map<std::string, std::string> names = {{"query", "q"},  {"key", "k"},   {"value", "v"},
                                                           {"output", "o"}, {"inner", "1"}, {"outer", "2"}};
  return names;
}

}  // namespace

std::string marian_name(const std::string& logical_name, bool pre_norm) {
  if (logical_name == "embedding") return "Wemb";
  static const std::regex form("(encoder|decoder)(?:/layers/([0-9]+)/([a-z_]+))?/([a-z]+)/([a-z]+)");
  std::smatch parts;
  VENTRIS_CHECK(std::regex_match(logical_name, parts, form), "{} has no name in Marian", logical_name);
  const std::string stack = parts[1];
  const std::string linear = parts[4];
  const std::string kind = parts[5];
  if (linear == "norm") {
    const std::string suffix = kind == "gamma" ? "_ln_scale" : "_ln_bias";
    if (!parts[3].matched) return stack + "_top" + suffix;
    return fmt::format("{}_l{}_{}{}{}", stack, std::stoi(parts[2]) + 1, sublayers().at(parts[3]).second,
                       suffix, pre_norm ? "_pre" : "");
  }
  return fmt::format("{}_l{}_{}_{}{}", stack, std::stoi(parts[2]) + 1, sublayers().at(parts[3]).first,
                     kind == "weight" ? "W" : "b", linears().at(linear));
}

}  // namespace ventris
