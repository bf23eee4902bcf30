// SPDX-License-Identifier: Apache-2.0
#include "data/scores/ngram_matches.h"

#include <algorithm>

namespace ventris::data {

void NgramMatches::set_hypothesis(std::span<const int32_t> symbols, int max_order) {
  max_order_ = static_cast<size_t>(max_order);
  empty_table(ngrams_);
  for (size_t begin = 0; begin < symbols.size(); ++begin) {
    int32_t prefix = 0;
    for (size_t at = begin; at < std::min(symbols.size(), begin + max_order_); ++at) {
      Ngram& ngram = ngrams_[key_of(prefix, symbols[at])];
      if (ngram.number == 0) ngram.number = static_cast<int32_t>(ngrams_.size());
      ++ngram.in_hypothesis;
      prefix = ngram.number;
    }
  }
}

void NgramMatches::add_reference(std::span<const int32_t> symbols, int64_t* matches) {
  for (auto& [key, ngram] : ngrams_) ngram.in_reference = 0;
  for (size_t begin = 0; begin < symbols.size(); ++begin) {
    int32_t prefix = 0;
    for (size_t at = begin; at < std::min(symbols.size(), begin + max_order_); ++at) {
      const auto found = ngrams_.find(key_of(prefix, symbols[at]));
      if (found == ngrams_.end()) break;  // a longer n-gram cannot be in the hypothesis either
      Ngram& ngram = found->second;
      prefix = ngram.number;
      if (++ngram.in_reference <= ngram.matched || ngram.in_reference > ngram.in_hypothesis) continue;
      ngram.matched = ngram.in_reference;
      ++matches[at - begin];
    }
  }
}

void NgramMatches::forget_references() {
  for (auto& [key, ngram] : ngrams_) ngram.matched = 0;
}

}  // namespace ventris::data
