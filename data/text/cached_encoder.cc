#include "data/text/cached_encoder.h"

#include <xxhash.h>

#include <cstring>

namespace ventris::data {

namespace {

constexpr size_t kPlaces = size_t{1} << 18;
constexpr size_t kMaxWords = kPlaces / 2;
constexpr size_t kLongestWord = 64;  // bytes: bounds the memory of all words

}  // namespace

CachedEncoder::CachedEncoder(const Tokenizer& tokenizer, bool independent_words)
    : tokenizer_(tokenizer), independent_words_(independent_words) {
  if (independent_words_) {
    table_.resize(kPlaces);
  }
}

void CachedEncoder::encode(std::string_view text, std::vector<int32_t>& ids) {
  if (!independent_words_ || text.find("\xe2\x96\x81") != std::string_view::npos) {
    tokenizer_.encode(text, ids);
    return;
  }
  ids.clear();
  while (!text.empty()) {
    const auto* const space = static_cast<const char*>(std::memchr(text.data(), ' ', text.size()));
    const size_t size = space == nullptr ? text.size() : static_cast<size_t>(space - text.data());
    if (size > 0) {
      append_word(text.substr(0, size), ids);
    }
    text.remove_prefix(space == nullptr ? size : size + 1);
  }
}

void CachedEncoder::append_word(std::string_view word, std::vector<int32_t>& ids) {
  if (word.size() > kLongestWord) {
    tokenizer_.encode(word, word_ids_);
    ids.insert(ids.end(), word_ids_.begin(), word_ids_.end());
    return;
  }
  const uint64_t hash = XXH3_64bits(word.data(), word.size());
  size_t place = hash & (kPlaces - 1);
  for (; table_[place].text_size != 0; place = (place + 1) & (kPlaces - 1)) {
    const Entry& entry = table_[place];
    if (entry.hash == hash && entry.text_size == word.size() &&
        std::memcmp(texts_.data() + entry.text_begin, word.data(), word.size()) == 0) {
      const auto begin = ids_.begin() + entry.ids_begin;
      ids.insert(ids.end(), begin, begin + entry.ids_size);
      return;
    }
  }
  tokenizer_.encode(word, word_ids_);
  ids.insert(ids.end(), word_ids_.begin(), word_ids_.end());
  table_[place] = {hash, static_cast<uint32_t>(texts_.size()), static_cast<uint32_t>(word.size()),
                   static_cast<uint32_t>(ids_.size()), static_cast<uint32_t>(word_ids_.size())};
  texts_ += word;
  ids_.insert(ids_.end(), word_ids_.begin(), word_ids_.end());
  if (++used_ == kMaxWords) {
    forget();
  }
}

void CachedEncoder::forget() {
  table_.assign(kPlaces, Entry{});
  texts_.clear();
  ids_.clear();
  used_ = 0;
}

}  // namespace ventris::data
