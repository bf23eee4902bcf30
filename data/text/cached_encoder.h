#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/tokenizer.h"

// Private to data/.

namespace ventris::data {

/// Encodes lines of valid UTF-8 as the tokenizer does, id for id, and caches words if the model encodes words
/// independently (word_independence.h); otherwise whole lines are passed to the tokenizer. One for each
/// thread; bounded memory: about 150 bytes for each of `max_words`, a power of two.
class CachedEncoder {
 public:
  /// `independent_words` is words_are_independent() of the tokenizer's model, found once for all threads.
  CachedEncoder(const Tokenizer& tokenizer, bool independent_words, size_t max_words = size_t{1} << 17);

  void encode(std::string_view text, std::vector<int32_t>& ids);  // overwrites ids
  const Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  struct Entry {
    uint64_t hash = 0;
    uint32_t text_begin = 0;
    uint32_t text_size = 0;  // 0: a free place
    uint32_t ids_begin = 0;
    uint32_t ids_size = 0;
  };
  /// Words with their ids.
  struct Words {
    std::vector<Entry> table;  // open addressing, a power of two
    size_t used = 0;
    std::string texts;
    std::vector<int32_t> ids;

    /// The entry of the word, or the free place where it belongs.
    Entry& find(std::string_view word, uint64_t hash);
    std::span<const int32_t> ids_of(const Entry& entry) const;
    void clear();
  };

  void append_word(std::string_view word, std::vector<int32_t>& ids);
  void remember(std::string_view word, uint64_t hash, std::span<const int32_t> ids);

  const Tokenizer& tokenizer_;
  bool independent_words_;
  size_t max_words_;
  // When the recent words are as many as may be, they become the older ones, and those are forgotten: a
  // frequent word is taken over before.
  Words recent_;
  Words older_;
  std::vector<int32_t> word_ids_;
};

}  // namespace ventris::data
