// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "data/scores/bleu.h"
#include "data/scores/bleu_tokenize.h"
#include "data/scores/ngram_matches.h"
#include "data/scores/score_text.h"

namespace ventris::data {

/// sentence_counts() for many sentences, with reused memory.
class BleuCounter {
 public:
  /// Throws DataError kUsage if max_ngram_order is out of range.
  explicit BleuCounter(const BleuOptions& options);
  /// Throws DataError kBadData without references.
  BleuCounts count(std::string_view hypothesis, std::span<const std::string_view> references);

 private:
  std::span<const int32_t> symbols_of(std::string_view line, TokenizedLine& tokenized);

  BleuOptions options_;
  std::vector<TokenizedLine> lines_;  // the hypothesis and each reference
  std::vector<int32_t> symbols_;
  WordNumbers numbers_;
  NgramMatches matches_;
};

}  // namespace ventris::data
