#include "data/text/cached_encoder.h"

#include <xxhash.h>

#include <cstring>
#include <utility>

namespace ventris::data {

namespace {

constexpr size_t kPlacesPerWord = 2;
constexpr size_t kLongestWord = 64;  // bytes: bounds the memory of all words

}  // namespace

CachedEncoder::CachedEncoder(const Tokenizer& tokenizer, bool independent_words, size_t max_words)
    : tokenizer_(tokenizer), independent_words_(independent_words), max_words_(max_words) {
  if (!independent_words_) return;
  recent_.table.resize(kPlacesPerWord * max_words);
  older_.table.resize(kPlacesPerWord * max_words);
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
  if (const Entry& entry = recent_.find(word, hash); entry.text_size != 0) {
    const auto found = recent_.ids_of(entry);
    ids.insert(ids.end(), found.begin(), found.end());
    return;
  }
  if (const Entry& entry = older_.find(word, hash); entry.text_size != 0) {
    const auto found = older_.ids_of(entry);
    word_ids_.assign(found.begin(), found.end());
  } else {
    tokenizer_.encode(word, word_ids_);
  }
  ids.insert(ids.end(), word_ids_.begin(), word_ids_.end());
  remember(word, hash, word_ids_);
}

void CachedEncoder::remember(std::string_view word, uint64_t hash, std::span<const int32_t> ids) {
  Words& words = recent_;
  words.find(word, hash) = {hash, static_cast<uint32_t>(words.texts.size()),
                            static_cast<uint32_t>(word.size()), static_cast<uint32_t>(words.ids.size()),
                            static_cast<uint32_t>(ids.size())};
  words.texts += word;
  words.ids.insert(words.ids.end(), ids.begin(), ids.end());
  if (++words.used < max_words_) return;
  std::swap(recent_, older_);
  recent_.clear();
}

CachedEncoder::Entry& CachedEncoder::Words::find(std::string_view word, uint64_t hash) {
  const size_t mask = table.size() - 1;
  size_t place = hash & mask;
  for (;; place = (place + 1) & mask) {
    const Entry& entry = table[place];
    if (entry.text_size == 0) break;
    if (entry.hash == hash && entry.text_size == word.size() &&
        std::memcmp(texts.data() + entry.text_begin, word.data(), word.size()) == 0) {
      break;
    }
  }
  return table[place];
}

std::span<const int32_t> CachedEncoder::Words::ids_of(const Entry& entry) const {
  return {ids.data() + entry.ids_begin, entry.ids_size};
}

void CachedEncoder::Words::clear() {
  table.assign(table.size(), Entry{});
  texts.clear();
  ids.clear();
  used = 0;
}

}  // namespace ventris::data
