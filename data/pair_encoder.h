// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "data/text/cached_encoder.h"
#include "data/text/tokenizer_pair.h"
#include "data/text/word_independence.h"

// Private to data/.

namespace ventris::data {

/// The encoders of both sides, one and the same if they share a tokenizer. One for each thread; copies of one
/// ask the models only once whether their words are independent.
class PairEncoder {
 public:
  /// `max_words` of both together, a power of two.
  PairEncoder(const TokenizerPair& tokenizers, size_t max_words) {
    const size_t of_each = tokenizers.shared() ? max_words : max_words / 2;
    const auto add = [&](const Tokenizer& tokenizer) {
      encoders_.emplace_back(tokenizer, words_are_independent(tokenizer.model()), of_each);
    };
    add(tokenizers.target());
    if (!tokenizers.shared()) add(tokenizers.source());
  }
  CachedEncoder& source() { return encoders_.back(); }
  CachedEncoder& target() { return encoders_.front(); }

 private:
  std::vector<CachedEncoder> encoders_;
};

}  // namespace ventris::data
