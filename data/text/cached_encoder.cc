// SPDX-License-Identifier: Apache-2.0
#include "data/text/cached_encoder.h"

#include <xxhash.h>

#include <cstring>
#include <limits>
#include <utility>

#include "data/text/sentencepiece_format.h"

namespace ventris::data {

namespace {

constexpr size_t kPlacesPerWord = 2;
// These bound the memory of all words.
constexpr size_t kLongestCachedWord = 64;  // bytes
constexpr size_t kMostIds = 255;

template <typename T>
void append_all(std::span<const T> more, std::vector<T>& all) {
  all.insert(all.end(), more.begin(), more.end());
}

}  // namespace

CachedEncoder::CachedEncoder(const Tokenizer& tokenizer, bool independent_words, size_t max_words)
    : tokenizer_(tokenizer), independent_words_(independent_words), max_words_(max_words) {
  if (kind_of_sentencepiece_model(tokenizer.model()) == kModelUnigram) unigram_.emplace(tokenizer.model());
  if (!independent_words_) return;
  recent_.table.resize(kPlacesPerWord * max_words);
  older_.table.resize(kPlacesPerWord * max_words);
}

void CachedEncoder::encode(std::string_view text, std::vector<int32_t>& ids) {
  ids.clear();
  sum_ = 0.0F;
  scores_.clear();
  weights_ = 0.0;
  if (!independent_words_ || text.find(kSpaceMark) != std::string_view::npos) {
    encode_anew(text, ids);
    return;
  }
  while (!text.empty()) {
    const auto* const space = static_cast<const char*>(std::memchr(text.data(), ' ', text.size()));
    const size_t size = space == nullptr ? text.size() : static_cast<size_t>(space - text.data());
    if (size > 0) append_word(text.substr(0, size), ids);
    text.remove_prefix(space == nullptr ? size : size + 1);
  }
}

/// Appends the ids of the next part of the line, or of the whole line.
void CachedEncoder::encode_anew(std::string_view text, std::vector<int32_t>& ids) {
  if (unigram_) {
    for (const double score : scores_) sum_ = UnigramEncoder::add_score(sum_, score);
    scores_.clear();
    sum_ = unigram_->encode(text, sum_, ids);
    weights_ = -static_cast<double>(sum_);
  } else {
    tokenizer_.encode(text, part_.ids);
    append_all<int32_t>(part_.ids, ids);
  }
}

void CachedEncoder::append_word(std::string_view word, std::vector<int32_t>& ids) {
  if (word.size() > kLongestCachedWord || !append_known(word, ids)) encode_anew(word, ids);
}

/// False if the word's ids depend on what stands before it.
bool CachedEncoder::append_known(std::string_view word, std::vector<int32_t>& ids) {
  const auto append_if_valid = [&](std::span<const int32_t> more, std::span<const double> scores,
                                   float weight, float limit) {
    weights_ += weight;
    if (!(weights_ < limit)) return false;
    append_all(more, ids);
    append_all(scores, scores_);
    return true;
  };
  const uint64_t hash = XXH3_64bits(word.data(), word.size());
  if (const Entry& entry = recent_.find(word, hash); entry.text_size != 0)
    return append_if_valid(recent_.ids_of(entry), recent_.scores_of(entry), entry.weight, entry.limit);
  if (const Entry& entry = older_.find(word, hash); entry.text_size != 0) {
    const auto ids_of_word = older_.ids_of(entry);
    const auto scores_of_word = older_.scores_of(entry);
    part_.ids.assign(ids_of_word.begin(), ids_of_word.end());
    part_.scores.assign(scores_of_word.begin(), scores_of_word.end());
    part_.weight = entry.weight;
    part_.limit = entry.limit;
  } else {
    analyse(word);
  }
  if (part_.ids.size() <= kMostIds && part_.scores.size() <= kMostIds) remember(word, hash);
  return append_if_valid(part_.ids, part_.scores, part_.weight, part_.limit);
}

void CachedEncoder::analyse(std::string_view word) {
  if (unigram_) {
    unigram_->analyse(word, part_);
  } else {
    tokenizer_.encode(word, part_.ids);
    part_.limit = std::numeric_limits<float>::infinity();
  }
}

/// What part_ says.
void CachedEncoder::remember(std::string_view word, uint64_t hash) {
  Words& words = recent_;
  words.find(word, hash) = {.hash = hash,
                            .text_begin = static_cast<uint32_t>(words.texts.size()),
                            .ids_begin = static_cast<uint32_t>(words.ids.size()),
                            .scores_begin = static_cast<uint32_t>(words.scores.size()),
                            .weight = part_.weight,
                            .limit = part_.limit,
                            .text_size = static_cast<uint8_t>(word.size()),
                            .ids_size = static_cast<uint8_t>(part_.ids.size()),
                            .scores_size = static_cast<uint8_t>(part_.scores.size())};
  words.texts += word;
  append_all<int32_t>(part_.ids, words.ids);
  append_all<double>(part_.scores, words.scores);
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

std::span<const double> CachedEncoder::Words::scores_of(const Entry& entry) const {
  return {scores.data() + entry.scores_begin, entry.scores_size};
}

void CachedEncoder::Words::clear() {
  table.assign(table.size(), Entry{});
  texts.clear();
  ids.clear();
  scores.clear();
  used = 0;
}

}  // namespace ventris::data
