// SPDX-License-Identifier: Apache-2.0
#include "data/scores/bleu_counter.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "data/error.h"

namespace ventris::data {

BleuCounter::BleuCounter(const BleuOptions& options) : options_(options) {
  if (options.max_ngram_order < 1 || options.max_ngram_order > kMaxBleuOrder) {
    fail(ErrorKind::kUsage, "the longest n-grams of BLEU must have 1 to {} words, not {}", kMaxBleuOrder,
         options.max_ngram_order);
  }
}

std::span<const int32_t> BleuCounter::symbols_of(std::string_view line, TokenizedLine& tokenized) {
  bleu_words(line, options_, tokenized);
  symbols_.clear();
  for (const std::string_view word : tokenized.words) symbols_.push_back(numbers_.number(word));
  return symbols_;
}

BleuCounts BleuCounter::count(std::string_view hypothesis, std::span<const std::string_view> references) {
  if (references.empty()) {
    fail(ErrorKind::kBadData, "BLEU needs at least one reference per sentence, but there is none");
  }
  // The numbering keeps views of the words, so each line has its own buffer.
  if (lines_.size() < references.size() + 1) lines_.resize(references.size() + 1);
  numbers_.clear();
  BleuCounts counts;
  matches_.set_hypothesis(symbols_of(hypothesis, lines_[0]), options_.max_ngram_order);
  const auto length = static_cast<int64_t>(symbols_.size());
  counts.hypothesis_length = length;
  for (int n = 0; n < options_.max_ngram_order; ++n) counts.total[n] = std::max<int64_t>(length - n, 0);
  int64_t closest = std::numeric_limits<int64_t>::max();
  for (size_t r = 0; r < references.size(); ++r) {
    matches_.add_reference(symbols_of(references[r], lines_[r + 1]), counts.correct.data());
    const auto reference_length = static_cast<int64_t>(symbols_.size());
    const int64_t distance = std::abs(length - reference_length);
    const bool shorter_of_equal = distance == closest && reference_length < counts.reference_length;
    if (distance < closest || shorter_of_equal) counts.reference_length = reference_length;
    closest = std::min(closest, distance);
  }
  return counts;
}

}  // namespace ventris::data
