// SPDX-License-Identifier: Apache-2.0
#include "data/text/tokenizer_pair.h"

#include <fmt/core.h>

#include <algorithm>

namespace ventris::data {

TokenizerPair::TokenizerPair(const TokenizerModels& models, const std::string& origin)
    : target_(models.target, models.source.empty() ? origin : origin + " (targets)"),
      own_source_(models.source.empty() ? nullptr
                                        : std::make_unique<Tokenizer>(models.source, origin + " (sources)")) {
}

TokenizerModels TokenizerPair::models() const {
  return {.target = target_.model(), .source = own_source_ ? own_source_->model() : std::string()};
}

int32_t largest_vocabulary(const TokenizerPair& tokenizers) {
  return std::max(tokenizers.source().vocab_size(), tokenizers.target().vocab_size());
}

std::string vocabulary_difference(const TokenizerPair& a, const TokenizerPair& b) {
  if (a.shared() != b.shared()) {
    return a.shared() ? "the first has one vocabulary for both sides, the second one for each"
                      : "the first has a vocabulary for each side, the second one for both";
  }
  const std::string of_targets = vocabulary_difference(a.target(), b.target());
  if (a.shared() || !of_targets.empty()) {
    return of_targets.empty() || a.shared() ? of_targets : fmt::format("targets: {}", of_targets);
  }
  const std::string of_sources = vocabulary_difference(a.source(), b.source());
  return of_sources.empty() ? of_sources : fmt::format("sources: {}", of_sources);
}

}  // namespace ventris::data
