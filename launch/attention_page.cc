// SPDX-License-Identifier: Apache-2.0
#include "launch/attention_page.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "launch/page.h"

namespace ventris {

namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr size_t kDigitsOfWeight = 2;  // of base 64

/// 0 to 4095 stand for 0 to 1.
std::string packed(const std::vector<float>& weights) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve(kDigitsOfWeight * weights.size());
  for (const float weight : weights) {
    const auto level = static_cast<unsigned>(std::lround(4095.0F * std::clamp(weight, 0.0F, 1.0F)));
    text += kDigits[level >> 6];
    text += kDigits[level & 63U];
  }
  return text;
}

OrderedJson group(const SentenceAttention& attention, AttentionKind kind) {
  using Tokens = std::vector<std::string>;
  const Tokens& target = attention.target_tokens;
  const Tokens predicted(target.begin() + 1, target.end());
  const Tokens inputs(target.begin(), target.end() - 1);
  const std::vector<AttentionMap>& maps = attention.maps[static_cast<size_t>(kind)];
  OrderedJson weights = OrderedJson::array();
  for (const AttentionMap& map : maps) weights.push_back(packed(map.weights));
  OrderedJson object;
  switch (kind) {
    case AttentionKind::kEncoderSelf:
      object = {{"title", "Encoder self-attention"},
                {"note", "Each token of the source attends to all tokens of the source."},
                {"queries", attention.source_tokens},
                {"keys", attention.source_tokens}};
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
                {"keys", attention.source_tokens}};
      break;
  }
  object["layers"] = maps.size() / static_cast<size_t>(attention.heads);
  object["heads"] = attention.heads;
  object["weights"] = weights;
  return object;
}

}  // namespace

OrderedJson attention_groups(const SentenceAttention& attention) {
  return {group(attention, AttentionKind::kCross), group(attention, AttentionKind::kEncoderSelf),
          group(attention, AttentionKind::kDecoderSelf)};
}

size_t bytes_of_maps(const SentenceAttention& attention) {
  size_t bytes = 0;
  for (const std::vector<AttentionMap>& of_kind : attention.maps)
    for (const AttentionMap& map : of_kind) bytes += kDigitsOfWeight * map.weights.size();
  return bytes;
}

std::string attention_page(const std::string& model, const SentenceAttention& attention) {
  const OrderedJson data = {{"model", model},
                            {"source", attention.source},
                            {"target", attention.target},
                            {"translated", attention.translated},
                            {"groups", attention_groups(attention)}};
  return page_with(kAttentionPage, data);
}

}  // namespace ventris
