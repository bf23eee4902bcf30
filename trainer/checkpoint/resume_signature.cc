// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint/resume_signature.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/device/error.h"
#include "trainer/checkpoint/config_json.h"

namespace ventris {
namespace {

constexpr std::string_view kPrecision = "precision";
constexpr std::string_view kTieKey = "tie";  // no line: all

using Signature = std::vector<std::pair<std::string, std::string>>;

/// Lines of options without their default, with the option and its value.
struct ToldOption {
  std::string_view key;
  std::string_view option;
  std::string_view value;
};
constexpr const char* kBeginEmbedding = "--begin-embedding";
constexpr const char* kLearned = "learned";  // no line
constexpr ToldOption kToldOptions[] = {{"zero_word", kBeginEmbedding, "zero"},
                                       {"zero_start", kBeginEmbedding, "none"},
                                       {"marian_positions", "--positions", "marian"},
                                       {"learned_positions", "--positions", "learned"},
                                       {"output_bias", "--output-bias", "yes"}};

const ToldOption* told_option(std::string_view key) {
  const auto* found = std::find_if(std::begin(kToldOptions), std::end(kToldOptions),
                                   [&](const ToldOption& told) { return told.key == key; });
  return found == std::end(kToldOptions) ? nullptr : found;
}

/// A line of an option with its default is none.
Signature parse_signature(const std::string& text) {
  Signature lines;
  std::istringstream from(text);
  for (std::string line; std::getline(from, line);) {
    const size_t colon = std::min(line.find(": "), line.size());
    const std::string key = line.substr(0, colon);
    const std::string value = line.substr(std::min(colon + 2, line.size()));
    if (told_option(key) == nullptr || value != "false") lines.emplace_back(key, value);
  }
  return lines;
}

/// The option of a key, such as "--d-model" of "d_model"; the sizes of vocabularies follow from the corpus.
std::string option_of(const std::string& key) {
  if (const ToldOption* told = told_option(key)) return std::string(told->option);
  if (key == "vocab_size" || key == "source_vocab_size") return key;
  std::string option = "--" + key;
  std::replace(option.begin(), option.end(), '_', '-');
  return option;
}

/// The value of the option of `key`, as text.
std::string told_value(const Signature& lines, const std::string& key) {
  const ToldOption* option = told_option(key);
  for (const auto& [name, value] : lines) {
    const ToldOption* told = told_option(name);
    if (option != nullptr && told != nullptr && told->option == option->option)
      return std::string(told->value);
    if (option == nullptr && name == key) return value.empty() ? "none" : value;
  }
  if (key == kTieKey) return name_of(Tie::kAll);
  if (key == "activation") return name_of(Activation::kRelu);
  if (key == "activation_dropout" || key == "weight_decay") return "0";
  return option != nullptr ? option->option == kBeginEmbedding ? kLearned : "its default" : "none";
}

}  // namespace

std::string resume_signature(const TrainOptions& options) {
  std::string lines = lines_of(options.model);
  lines += fmt::format("batch_source_tokens: {}\nbatch_target_tokens: {}\nlogical_shards: {}\nseed: {}\n",
                       options.batch_source_tokens, options.batch_target_tokens, options.logical_shards,
                       options.seed);
  lines +=
      fmt::format("beta1: {}\nbeta2: {}\nadam_epsilon: {}\n{}: {}\ngradient_dtype: {}\nreduction: {}\n",
                  options.beta1, options.beta2, options.adam_epsilon, kPrecision, name_of(options.precision),
                  name_of(options.gradient_dtype), name_of(options.reduction));
  for (const auto& [key, alpha] : {std::pair("sample_source", options.sample_source),
                                   std::pair("sample_target", options.sample_target)}) {
    if (alpha > 0.0) lines += fmt::format("{}: {}\n", key, alpha);
  }
  if (options.weight_decay > 0.0) lines += fmt::format("weight_decay: {}\n", options.weight_decay);
  if (options.ema > 0.0) lines += fmt::format("ema: {}\n", options.ema);
  if (!options.mix.empty()) lines += "mix: a plan\n";
  if (!options.freeze.empty()) lines += fmt::format("freeze: {}\n", fmt::join(options.freeze, " "));
  return lines;
}

Precision precision_of_signature(const std::string& signature) {
  for (const auto& [key, value] : parse_signature(signature)) {
    if (key == kPrecision) return precision_named(value);
  }
  return Precision::kAuto;
}

std::string begin_embedding_of_signature(const std::string& signature) {
  for (const auto& [key, value] : parse_signature(signature)) {
    const ToldOption* told = told_option(key);
    if (told != nullptr && told->option == kBeginEmbedding) return std::string(told->value);
  }
  return kLearned;
}

std::string tie_of_signature(const std::string& signature) {
  return told_value(parse_signature(signature), std::string(kTieKey));
}

void refuse_other_option(const std::string& path, const std::string& key, const std::string& theirs,
                         const std::string& ours) {
  const std::string same = key.ends_with("vocab_size") ? "corpus" : "option";
  fail(ExitCode::kBadConfiguration,
       "{} was written with {} {}, but this run has {}. "
       "Give the same {}, or another --model-dir to start from the beginning",
       path, key, theirs, ours, same);
}

void check_same_signature(const std::string& path, const std::string& theirs, const std::string& ours) {
  if (theirs == ours) return;
  const Signature have = parse_signature(theirs);
  const Signature want = parse_signature(ours);
  for (const Signature* lines : {&have, &want}) {
    for (const auto& [key, value] : *lines) {
      const auto there = [&, &name = key, &text = value](const Signature& all) {
        return std::find(all.begin(), all.end(), std::pair(name, text)) != all.end();
      };
      if (there(have) && there(want)) continue;
      refuse_other_option(path, option_of(key), told_value(have, key), told_value(want, key));
    }
  }
  refuse_other_option(path, "options", "in another order", "their own");
}

}  // namespace ventris
