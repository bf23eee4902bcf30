// SPDX-License-Identifier: Apache-2.0
#include "trainer/inference/alignment.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "backend/device/error.h"
#include "comm/communicator.h"
#include "data/io/json_text.h"
#include "data/scores/unspaced_text.h"
#include "trainer/checkpoint/marks.h"
#include "trainer/inference/work_sharing.h"

namespace ventris {
namespace {

using Json = nlohmann::json;

constexpr const char* kWordStart = "\u2581";
constexpr int64_t kChunkRows = 1024;
constexpr int kFewLayers = 4;

/// Weights between words: [target words][source words].
using WordWeights = std::vector<std::vector<double>>;

std::string hard_alignment(const WordWeights& weights) {
  std::vector<std::pair<size_t, size_t>> links;
  for (size_t t = 0; t < weights.size(); ++t) {
    const auto max = std::max_element(weights[t].begin(), weights[t].end());
    links.emplace_back(static_cast<size_t>(max - weights[t].begin()), t);
  }
  std::sort(links.begin(), links.end());
  std::string text;
  for (const auto& [source, target] : links) {
    text += fmt::format("{}{}-{}", text.empty() ? "" : " ", source, target);
  }
  return text;
}

std::string soft_alignment(const WordWeights& weights) {
  std::string text;
  for (size_t t = 0; t < weights.size(); ++t) {
    for (size_t s = 0; s < weights[t].size(); ++s) {
      text += fmt::format("{}{:.4f}", s > 0 ? "," : t > 0 ? " " : "", weights[t][s]);
    }
  }
  return text;
}

}  // namespace

std::vector<int> word_numbers(const data::Tokenizer& tokenizer, const std::vector<int32_t>& pieces) {
  std::vector<int> numbers;
  int word = -1;
  bool empty = false;  // the word has only its mark so far
  for (const int32_t id : pieces) {
    const std::string piece = tokenizer.piece(id);
    const bool starts = piece.starts_with(kWordStart);
    if (word < 0 || (starts && !empty)) {
      ++word;
      empty = true;
    }
    empty = empty && piece == kWordStart;
    numbers.push_back(word);
  }
  // A mark at the end without a following word is not a word.
  for (size_t i = numbers.size(); empty && word > 0 && i > 0 && numbers[i - 1] == word; --i) --numbers[i - 1];
  return numbers;
}

Aligner::Aligner(Context& context, Communicator& communicator, const ModelSet& models, int layer,
                 AlignmentUnit unit)
    : communicator_(communicator), tokenizers_(models.tokenizers()), unit_(unit) {
  for (const SearchModel& model : models.search_models()) {
    const int layers = model.config.decoder_layers;
    if (layer < 0 || layer > layers) {
      fail(ExitCode::kBadConfiguration, "--alignment-layer is {}, but the decoder has {} layers", layer,
           layers);
    }
    layers_.push_back(layer > 0 ? layer - 1 : layers - (layers > kFewLayers ? 2 : 1));
    mappers_.push_back(std::make_unique<AttentionMapper>(context, model.config, model.store, model.ids,
                                                         marks_of(tokenizers_)));
  }
}

std::vector<std::vector<std::string>> Aligner::align(const std::vector<TranslatedLine>& lines,
                                                     AlignmentForm form) {
  std::vector<std::vector<std::string>> texts(lines.size());
  std::vector<TokenPair> pairs;
  std::vector<std::string*> places;
  std::vector<int64_t> rows;
  for (size_t i = 0; i < lines.size(); ++i) {
    texts[i].resize(lines[i].translations.size());
    for (size_t k = 0; k < texts[i].size(); ++k) {
      const TokenPair pair = {lines[i].source, lines[i].translations[k].tokens};
      if (pair.source.empty() || pair.target.empty()) continue;
      pairs.push_back(pair);
      places.push_back(&texts[i][k]);
      rows.push_back(static_cast<int64_t>(std::max(pair.source.size(), pair.target.size())) + 1);
    }
  }
  Json mine = Json::array();  // [number of the pair, text] of this rank
  for (const Chunk& own : chunks_of_this_rank(communicator_, rows, {.rows = kChunkRows})) {
    std::vector<TokenPair> chunk;
    for (const size_t index : own.sentences) chunk.push_back(pairs[index]);
    std::vector<std::vector<AttentionMap>> maps;  // of each model
    for (size_t m = 0; m < mappers_.size(); ++m) {
      maps.push_back(mappers_[m]->cross_attention(chunk, layers_[m]));
    }
    for (size_t i = 0; i < chunk.size(); ++i) {
      std::vector<AttentionMap> of_pair;
      for (std::vector<AttentionMap>& of_model : maps) of_pair.push_back(std::move(of_model[i]));
      mine.push_back({own.sentences[i], text_of(chunk[i], of_pair, form)});
    }
  }
  for (const std::string& gathered : communicator_.all_gather(data::utf8_json_text(mine))) {
    for (const Json& entry : data::read_json(gathered)) {
      *places.at(entry.at(0).get<size_t>()) = entry.at(1).get<std::string>();
    }
  }
  return texts;
}

std::vector<int> Aligner::unit_numbers(const data::Tokenizer& tokenizer,
                                       const std::vector<int32_t>& pieces) const {
  const bool tokens = unit_ == AlignmentUnit::kToken ||
                      (unit_ == AlignmentUnit::kAuto && data::is_unspaced(tokenizer.decode(pieces)));
  if (!tokens) return word_numbers(tokenizer, pieces);
  std::vector<int> numbers(pieces.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

std::string Aligner::text_of(const TokenPair& pair, const std::vector<AttentionMap>& maps,
                             AlignmentForm form) const {
  const std::vector<int> source =
      unit_numbers(tokenizers_.source(), {pair.source.begin(), pair.source.end()});
  const std::vector<int> target =
      unit_numbers(tokenizers_.target(), {pair.target.begin(), pair.target.end()});
  WordWeights weights(static_cast<size_t>(target.back()) + 1,
                      std::vector<double>(static_cast<size_t>(source.back()) + 1, 0.0));
  std::vector<int> pieces(weights.size(), 0);
  for (const int word : target) ++pieces[static_cast<size_t>(word)];
  for (size_t t = 0; t < target.size(); ++t) {
    const auto to = static_cast<size_t>(target[t]);
    for (size_t s = 0; s < source.size(); ++s) {
      double sum = 0.0;
      for (const AttentionMap& map : maps) {
        sum += static_cast<double>(map.at(static_cast<int64_t>(t), static_cast<int64_t>(s)));
      }
      weights[to][static_cast<size_t>(source[s])] += sum / static_cast<double>(maps.size()) / pieces[to];
    }
  }
  return form == AlignmentForm::kHard ? hard_alignment(weights) : soft_alignment(weights);
}

}  // namespace ventris
