// SPDX-License-Identifier: Apache-2.0
#include "trainer/validation_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <string_view>

#include "model/attention_maps.h"
#include "model/search/beam_search.h"
#include "trainer/files/marks.h"
#include "trainer/files/png.h"

namespace ventris {
namespace {

constexpr int64_t kCell = 12;  // pixels of a weight, each way

std::vector<int32_t> ids_of(const data::TokenView& view) {
  return {view.begin(), view.end()};
}

/// Text that Markdown shows as it is.
std::string escaped(std::string_view text) {
  constexpr std::string_view kMarkup = "\\`*_{}[]()#+-.!|~";
  std::string result;
  for (const char c : text) {
    if (c == '&' || c == '<' || c == '>') {
      result += c == '&' ? "&amp;" : c == '<' ? "&lt;" : "&gt;";
    } else {
      if (kMarkup.find(c) != std::string_view::npos) result += '\\';
      result += c == '\n' || c == '\r' ? ' ' : c;
    }
  }
  return result;
}

EventImage image_of(const AttentionMap& map, int layer) {
  const int64_t height = map.queries * kCell;
  const int64_t width = map.keys * kCell;
  std::vector<uint8_t> pixels(static_cast<size_t>(height * width));
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      const float weight = std::clamp(map.at(y / kCell, x / kCell), 0.0F, 1.0F);
      pixels[static_cast<size_t>(y * width + x)] =
          static_cast<uint8_t>(std::lround(255.0F * (1.0F - weight)));
    }
  }
  return {.tag = fmt::format("attention/layer_{}", layer + 1),
          .description = "",
          .height = height,
          .width = width,
          .png = grey_png(pixels, height, width)};
}

}  // namespace

ValidationSamples::ValidationSamples(Context& context, const data::TokenizerPair& tokenizers,
                                     const ValidationSet& set, const TrainOptions& options)
    : context_(context), tokenizers_(tokenizers), set_(set), options_(options) {
  const data::SentencePairs& valid = set.pairs;
  const int longest = std::min(kMaxTokens, options.model.max_positions - 1);
  for (int64_t pair = 0; pair < valid.size() && pairs_.size() < kSentences; ++pair) {
    const auto fits = [&](int length) { return length > 0 && length <= longest; };
    if (fits(valid.source.length(pair)) && fits(valid.target.length(pair))) pairs_.push_back(pair);
  }
}

Event ValidationSamples::at_step(int64_t step, ParameterStore& store, const TransformerIds& ids) {
  Event event{
      .time = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(),
      .step = step};
  if (pairs_.empty()) return event;
  add_texts(store, ids, event);
  add_images(store, ids, event);
  return event;
}

void ValidationSamples::add_texts(ParameterStore& store, const TransformerIds& ids, Event& event) {
  std::vector<std::vector<int32_t>> sources;
  for (const int64_t pair : pairs_) sources.push_back(ids_of(set_.pairs.source[pair]));
  BeamSearch search(context_, options_.model, store, ids,
                    {.beam_size = options_.valid_beam_size,
                     .length_penalty = options_.valid_length_penalty,
                     .source_end_id = tokenizers_.source().end_id(),
                     .begin_id = tokenizers_.target().begin_id(),
                     .end_id = tokenizers_.target().end_id(),
                     .unknown_id = tokenizers_.target().unknown_id()});
  const auto translated = search.translate(sources);
  for (size_t i = 0; i < pairs_.size(); ++i) {
    event.texts.push_back(
        {.tag = fmt::format("samples/{}", i + 1),
         .markdown =
             fmt::format("**source** {}\n\n**reference** {}\n\n**translation** {}",
                         escaped(tokenizers_.source().decode(sources[i])), escaped(set_.reference(pairs_[i])),
                         escaped(tokenizers_.target().decode(translated[i].at(0).tokens)))});
  }
}

void ValidationSamples::add_images(ParameterStore& store, const TransformerIds& ids, Event& event) {
  const std::vector<int32_t> source = ids_of(set_.pairs.source[pairs_.front()]);
  const std::vector<int32_t> target = ids_of(set_.pairs.target[pairs_.front()]);
  std::string description = "Columns:";
  for (const int32_t token : source) description += " " + escaped(tokenizers_.source().piece(token));
  description += " and the end. Rows, the token that is written next:";
  for (const int32_t token : target) description += " " + escaped(tokenizers_.target().piece(token));
  description += " and the end.";
  AttentionMapper mapper(context_, options_.model, store, ids, marks_of(tokenizers_));
  for (int layer = 0; layer < options_.model.decoder_layers; ++layer) {
    const TokenPair pair[] = {{.source = source, .target = target}};
    event.images.push_back(image_of(mapper.cross_attention(pair, layer).front(), layer));
    event.images.back().description = description;
  }
}

}  // namespace ventris
