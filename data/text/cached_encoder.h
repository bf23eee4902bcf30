// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/subword_model.h"
#include "data/text/tokenizer.h"
#include "data/text/word_independence.h"

// Private to data/.

namespace ventris::data {

/// By how much the best segmentation of a text is better than any other, in a unigram model that
/// words_are_independent() accepts. For one thread at a time; copies share the vocabulary.
class UnigramMargin {
 public:
  /// The bytes of the model must outlive the object.
  explicit UnigramMargin(std::string_view model);

  struct Sums {  // of the scores of a segmentation, in double precision
    double best = 0.0;
    double second = 0.0;  // -infinity: there is only one
    uint32_t characters = 0;
  };
  Sums of(std::string_view normalised);

 private:
  struct Ends {  // the two best segmentations up to a byte
    double best;
    double second;
  };

  std::shared_ptr<const SubwordPieces> pieces_;
  double unknown_score_;
  std::vector<Ends> ends_;
};

/// Encodes lines of valid UTF-8 as the tokenizer does, id for id, and caches words if the model encodes words
/// independently (word_independence.h); lines that the words do not decide are passed to the tokenizer whole.
/// One for each thread; bounded memory: about 180 bytes for each of `max_words`, a power of two. The
/// tokenizer must outlive the object and its copies.
class CachedEncoder {
 public:
  /// `independent_words` is words_are_independent() of the tokenizer's model, found once for all threads.
  CachedEncoder(const Tokenizer& tokenizer, bool independent_words, size_t max_words = size_t{1} << 17);

  void encode(std::string_view text, std::vector<int32_t>& ids);  // overwrites ids
  const Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  /// The ids of a word, which are those in a line as long as the weights of its words up to this one, itself
  /// included, are below the limit. Without sums of scores: 0 and infinity.
  struct Part {
    std::vector<int32_t> ids;
    float weight = 0.0F;
    float limit = 0.0F;
  };
  struct Entry {
    uint64_t hash = 0;
    uint32_t text_begin = 0;
    uint32_t ids_begin = 0;
    float weight = 0.0F;
    float limit = 0.0F;
    uint8_t text_size = 0;  // 0: a free place
    uint8_t ids_size = 0;
  };
  /// Words with their tokens.
  struct Words {
    std::vector<Entry> table;  // open addressing, a power of two
    size_t used = 0;
    std::string texts;
    std::vector<int32_t> ids;

    /// The entry of the word, or the free place where it belongs.
    Entry& find(std::string_view word, uint64_t hash);
    std::span<const int32_t> ids_of(const Entry& entry) const {
      return {ids.data() + entry.ids_begin, entry.ids_size};
    }
    void clear();
  };

  /// False if the words do not decide the ids of the line.
  bool append_words(std::string_view text, std::vector<int32_t>& ids);
  bool append_word(std::string_view word, std::vector<int32_t>& ids);
  bool append(std::span<const int32_t> more, float weight, float limit, std::vector<int32_t>& ids);
  void analyse(std::string_view word);
  void remember(std::string_view word, uint64_t hash);

  const Tokenizer& tokenizer_;
  std::optional<UnigramMargin> margin_;  // of unigram models
  bool independent_words_;
  size_t max_words_;
  // When the recent words are as many as may be, they become the older ones, and those are forgotten: a
  // frequent word is taken over before.
  Words recent_;
  Words older_;
  Part part_;
  std::string normalised_;  // the word
  double weights_ = 0.0;    // of the words of the line so far
};

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
