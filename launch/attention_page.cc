#include "launch/attention_page.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "launch/attention_page_template.h"
#include "launch/page_data.h"

namespace ventris {

namespace {

using Json = nlohmann::ordered_json;

/// Two characters of base 64 a weight: 0 to 4095 stand for 0 to 1.
std::string packed(const std::vector<float>& weights) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve(2 * weights.size());
  for (const float weight : weights) {
    const auto level = static_cast<unsigned>(std::lround(4095.0F * std::clamp(weight, 0.0F, 1.0F)));
    text += kDigits[level >> 6];
    text += kDigits[level & 63U];
  }
  return text;
}

Json group(const AttentionPage& page, AttentionKind kind) {
  using Tokens = std::vector<std::string>;
  const Tokens predicted(page.target_tokens.begin() + 1, page.target_tokens.end());
  const Tokens inputs(page.target_tokens.begin(), page.target_tokens.end() - 1);
  const std::vector<AttentionMap>& maps = page.maps[static_cast<size_t>(kind)];
  Json weights = Json::array();
  for (const AttentionMap& map : maps) weights.push_back(packed(map.weights));
  Json object;
  switch (kind) {
    case AttentionKind::kEncoderSelf:
      object = {{"title", "Encoder self-attention"},
                {"note", "Each token of the source attends to all tokens of the source."},
                {"queries", page.source_tokens},
                {"keys", page.source_tokens}};
      break;
    case AttentionKind::kDecoderSelf:
      object = {
          {"title", "Decoder self-attention"},
          {"note", "The decoder, about to write the token of the row, attends to the tokens written so far."},
          {"queries", predicted},
          {"keys", inputs}};
      break;
    case AttentionKind::kCross:
      object = {{"title", "Cross-attention"},
                {"note", "The decoder, about to write the token of the row, attends to the source."},
                {"queries", predicted},
                {"keys", page.source_tokens}};
      break;
  }
  object["layers"] = maps.size() / static_cast<size_t>(page.heads);
  object["heads"] = page.heads;
  object["weights"] = weights;
  return object;
}

}  // namespace

std::string attention_page(const AttentionPage& page) {
  const Json data = {{"model", page.model},
                     {"source", page.source},
                     {"target", page.target},
                     {"translated", page.translated},
                     {"groups",
                      {group(page, AttentionKind::kCross), group(page, AttentionKind::kEncoderSelf),
                       group(page, AttentionKind::kDecoderSelf)}}};
  return std::string(kPageBegin) + kAttentionPageHead + page_data(data) + kAttentionPageTail;
}

}  // namespace ventris
