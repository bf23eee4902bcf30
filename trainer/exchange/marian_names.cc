// SPDX-License-Identifier: Apache-2.0
#include "trainer/exchange/marian_names.h"

#include <fmt/core.h>

#include <map>
#include <utility>
#include <vector>

#include "backend/device/error.h"
#include "model/transformer_parameters.h"

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

std::vector<std::string> split(const std::string& path) {
  std::vector<std::string> parts = {""};
  for (const char c : path) {
    if (c == '/') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

}  // namespace

std::string marian_name(const std::string& logical_name, bool pre_norm) {
  if (logical_name == kEmbedding) return "Wemb";
  if (logical_name == kSourceEmbedding) return "encoder_Wemb";
  if (logical_name == kTargetEmbedding) return "decoder_Wemb";
  if (logical_name == kOutputWeight) return kMarianOutputWeight;
  if (logical_name == kOutputBias) return kMarianOutputBias;
  // <stack>/norm/<kind>, or <stack>/layers/<number>/<sublayer>/<linear or norm>/<kind>
  const std::vector<std::string> parts = split(logical_name);
  VENTRIS_CHECK(parts.size() == 3 || (parts.size() == 6 && parts[1] == "layers"), "{} has no name in Marian",
                logical_name);
  const std::string& stack = parts.front();
  const std::string& kind = parts.back();
  const std::string norm_suffix = kind == "gamma" ? "_ln_scale" : "_ln_bias";
  if (parts.size() == 3) return stack + "_top" + norm_suffix;
  const int layer = std::stoi(parts[2]) + 1;
  const auto& [prefix, norm_prefix] = sublayers().at(parts[3]);
  if (parts[4] == "norm")
    return fmt::format("{}_l{}_{}{}{}", stack, layer, norm_prefix, norm_suffix, pre_norm ? "_pre" : "");
  return fmt::format("{}_l{}_{}_{}{}", stack, layer, prefix, kind == "weight" ? "W" : "b",
                     linears().at(parts[4]));
}

}  // namespace ventris
