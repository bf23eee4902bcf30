#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/tokenizer.h"

// Private to data/.

namespace ventris::data {

/// Encodes lines of valid UTF-8 as the tokenizer does, id for id, and caches words if the model encodes words
/// independently (word_independence.h); otherwise whole lines are passed to the tokenizer. One for each
/// thread; bounded memory.
class CachedEncoder {
 public:
  /// `independent_words` is words_are_independent() of the tokenizer's model, found once for all threads.
  CachedEncoder(const Tokenizer& tokenizer, bool independent_words);

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

  void append_word(std::string_view word, std::vector<int32_t>& ids);
  void forget();

  const Tokenizer& tokenizer_;
  bool independent_words_;
  std::vector<Entry> table_;  // open addressing, a power of two
  size_t used_ = 0;
  std::string texts_;
  std::vector<int32_t> ids_;
  std::vector<int32_t> word_ids_;
};

}  // namespace ventris::data
