// SPDX-License-Identifier: Apache-2.0
#include "trainer/validation_sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "backend/error.h"
#include "comm/communicator.h"
#include "trainer/files/json_text.h"

namespace ventris {
namespace {

using Json = nlohmann::json;

constexpr size_t kWordsOfASet = 3;  // NAME SRC TGT

/// The text of --valid-set as rank 0 reads it.
Json read_texts(const TrainOptions& options) {
  Json texts = Json::array();
  for (size_t i = 0; i + kWordsOfASet <= options.valid_sets.size(); i += kWordsOfASet) {
    const data::ValidLines lines =
        data::read_valid_lines({.source = options.valid_sets[i + 1], .target = options.valid_sets[i + 2]});
    texts.push_back({{"name", options.valid_sets[i]}, {"source", lines.source}, {"target", lines.target}});
  }
  return texts;
}

// Weights whose sums neither overflow nor lose one of them.
constexpr double kSmallestWeight = 1e-6;
constexpr double kLargestWeight = 1e6;

double parsed_weight(std::string_view text, const std::string& all) {
  double weight = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), weight);
  if (error != std::errc() || end != text.data() + text.size() ||
      !(weight >= kSmallestWeight && weight <= kLargestWeight)) {
    fail(ExitCode::kBadConfiguration,
         "--valid-best {}: \"{}\" is no weight; expected is the name of a set, or names with weights "
         "from {} to {}, such as news=2,it=1",
         all, text, kSmallestWeight, kLargestWeight);
  }
  return weight;
}

}  // namespace

std::vector<SetWeight> parse_valid_best(const std::string& text) {
  std::vector<SetWeight> weights;
  // By hand: clang 14 does not compile the splitting view of libstdc++ 12.
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view word = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    const size_t equals = std::min(word.find('='), word.size());
    const std::string name(word.substr(0, equals));
    if (name.empty()) fail(ExitCode::kBadConfiguration, "--valid-best {}: a name of a set is missing", text);
    if (std::ranges::any_of(weights, [&](const SetWeight& other) { return other.name == name; }))
      fail(ExitCode::kBadConfiguration, "--valid-best {}: {} is there twice", text, name);
    weights.push_back({name, equals == word.size() ? 1.0 : parsed_weight(word.substr(equals + 1), text)});
  }
  return weights;
}

void check_valid_sets(const TrainOptions& options) {
  const std::vector<std::string>& words = options.valid_sets;
  if (words.size() % kWordsOfASet != 0) {
    fail(ExitCode::kBadConfiguration,
         "--valid-set takes 3 values each time, NAME SRC TGT, but {} were given: {}", words.size(),
         words.back());
  }
  for (size_t i = 0; i < words.size(); i += kWordsOfASet) {
    if (data::is_corpus_name(words[i])) continue;
    fail(
        ExitCode::kBadConfiguration,
        "--valid-set {}: this cannot be the name of a set; expected are 1 to {} of the characters a-z, 0-9, _ and -",
        words[i], data::kLongestCorpusName);
  }
}

bool has_validation_pairs(const TrainOptions& options, const data::Corpus& corpus) {
  return !options.valid_sets.empty() ||
         std::ranges::any_of(corpus.valid_sets(), [](const auto& set) { return set.pairs.size() > 0; });
}

ValidationSets::ValidationSets(const TrainOptions& options, const data::Corpus& corpus,
                               Communicator& communicator) {
  add_corpus(corpus);
  add_text(options, corpus, communicator);
  if (!sets_.empty()) set_weights(options);
}

void ValidationSets::add_corpus(const data::Corpus& corpus) {
  for (const data::CorpusValidSet& set : corpus.valid_sets()) {
    if (set.pairs.size() == 0) continue;
    const auto number = static_cast<size_t>(&set - corpus.valid_sets().data());
    sets_.push_back({.name = set.name,
                     .pairs = set.pairs,
                     .reference = [&corpus, number](int64_t i) { return corpus.valid_reference(i, number); },
                     .source = [&corpus, number](int64_t i) { return corpus.valid_source(i, number); },
                     .weight = 0.0,
                     .digest = ""});
  }
}

void ValidationSets::add_text(const TrainOptions& options, const data::Corpus& corpus,
                              Communicator& communicator) {
  const bool reads = communicator.rank() == 0 && options.valid_every > 0;
  const Json texts = parse_json(communicator.broadcast(reads ? json_text(read_texts(options)) : "[]", 0));
  // So long that no batch of loss becomes larger for them, unless the corpus itself has such sentences.
  const int64_t longest =
      std::min<int64_t>(options.model.max_positions - int64_t{1}, data::kLongestValidLine);
  for (const Json& text : texts) {
    const auto name = text.at("name").get<std::string>();
    if (std::ranges::any_of(sets_, [&](const ValidationSet& set) { return set.name == name; })) {
      fail(ExitCode::kBadConfiguration,
           "--valid-set {}: there is a validation set of this name already; give it another one", name);
    }
    data::ValidLines lines;
    text.at("source").get_to(lines.source);
    text.at("target").get_to(lines.target);
    texts_.push_back(std::make_unique<const data::ValidText>(lines, corpus.tokenizers(), longest));
    const data::ValidText& own = *texts_.back();
    if (own.pairs().size() == 0) {
      fail(ExitCode::kBadData,
           "--valid-set {}: no pair of lines has tokens on both sides, so there is nothing to validate on",
           name);
    }
    sets_.push_back({.name = name,
                     .pairs = own.pairs(),
                     .reference = [&own](int64_t i) { return own.target(i); },
                     .source = [&own](int64_t i) { return own.source(i); },
                     .weight = 0.0,
                     .digest = own.digest()});
  }
}

void ValidationSets::set_weights(const TrainOptions& options) {
  const std::vector<SetWeight> weights = options.valid_best.empty()
                                             ? std::vector<SetWeight>{{sets_.front().name, 1.0}}
                                             : parse_valid_best(options.valid_best);
  for (const SetWeight& weight : weights) {
    const auto named = std::ranges::find(sets_, weight.name, &ValidationSet::name);
    if (named == sets_.end()) {
      std::string names;
      for (const ValidationSet& set : sets_) names += (names.empty() ? "" : ", ") + set.name;
      fail(ExitCode::kBadConfiguration, "--valid-best {}: there is no validation set {}; there are: {}",
           options.valid_best, weight.name, names);
    }
    named->weight = weight.weight;
  }
  for (const ValidationSet& set : sets_)
    if (set.weight > 0.0) deciding_.push_back(&set);
}

int64_t ValidationSets::pairs() const {
  int64_t pairs = 0;
  for (const ValidationSet& set : sets_) pairs += set.pairs.size();
  return pairs;
}

std::vector<std::string> ValidationSets::first_references() const {
  constexpr int64_t kEnough = 1000;
  std::vector<std::string> references;
  for (const ValidationSet* set : deciding_) {
    for (int64_t i = 0; i < set->pairs.size() && std::ssize(references) < kEnough; ++i)
      references.push_back(set->reference(i));
  }
  return references;
}

std::string ValidationSets::label() const {
  if (deciding_.empty()) return "";
  const bool is_usual =
      deciding_.size() == 1 && deciding_.front() == &sets_.front() && deciding_.front()->digest.empty();
  if (is_usual) return "";
  std::string label;
  for (const ValidationSet* set : deciding_) {
    label += (label.empty() ? "" : ",") + set->name;
    if (deciding_.size() > 1) label += fmt::format("={}", set->weight);
    if (!set->digest.empty()) label += "@" + set->digest;
  }
  return label;
}

}  // namespace ventris
