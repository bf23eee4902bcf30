// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/tokenizer.h"
#include "data/text/unigram_encoder.h"

// Private to data/.

namespace ventris::data {

/// Encodes lines of valid UTF-8 as the tokenizer does, id for id, and caches words if the model encodes words
/// independently (word_independence.h). Unigram models are encoded by UnigramEncoder; with others, lines
/// whose words are not independent are passed to the tokenizer. One for each thread; bounded memory: about
/// 180 bytes for each of `max_words`, a power of two. The tokenizer must outlive the object and its copies.
class CachedEncoder {
 public:
  /// `independent_words` is words_are_independent() of the tokenizer's model, found once for all threads.
  CachedEncoder(const Tokenizer& tokenizer, bool independent_words, size_t max_words = size_t{1} << 17);

  void encode(std::string_view text, std::vector<int32_t>& ids);  // overwrites ids
  const Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  using Part = UnigramEncoder::Part;  // of other models without scores, with the limit infinity
  struct Entry {
    uint64_t hash = 0;
    uint32_t text_begin = 0;
    uint32_t ids_begin = 0;
    uint32_t scores_begin = 0;
    float weight = 0.0F;
    float limit = 0.0F;
    uint8_t text_size = 0;  // 0: a free place
    uint8_t ids_size = 0;
    uint8_t scores_size = 0;
  };
  /// Words with their tokens.
  struct Words {
    std::vector<Entry> table;  // open addressing, a power of two
    size_t used = 0;
    std::string texts;
    std::vector<int32_t> ids;
    std::vector<double> scores;

    /// The entry of the word, or the free place where it belongs.
    Entry& find(std::string_view word, uint64_t hash);
    std::span<const int32_t> ids_of(const Entry& entry) const;
    std::span<const double> scores_of(const Entry& entry) const;
    void clear();
  };

  void encode_anew(std::string_view text, std::vector<int32_t>& ids);
  void append_word(std::string_view word, std::vector<int32_t>& ids);
  bool append_known(std::string_view word, std::vector<int32_t>& ids);
  void analyse(std::string_view word);
  void remember(std::string_view word, uint64_t hash);

  const Tokenizer& tokenizer_;
  std::optional<UnigramEncoder> unigram_;
  bool independent_words_;
  size_t max_words_;
  // When the recent words are as many as may be, they become the older ones, and those are forgotten: a
  // frequent word is taken over before.
  Words recent_;
  Words older_;
  Part part_;
  // Of the line so far, with a unigram model.
  float sum_ = 0.0F;            // of the scores before those in scores_
  std::vector<double> scores_;  // that sum_ lacks
  double weights_ = 0.0;        // at least minus the sum of both
};

}  // namespace ventris::data
