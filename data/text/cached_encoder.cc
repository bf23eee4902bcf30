// SPDX-License-Identifier: Apache-2.0
#include "data/text/cached_encoder.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

// Proof that a word of a unigram model has the same ids alone and in a line, if the limit allows it.
//
// What SentencePiece computes. V[e] is the single-precision sum of the best segmentation of the line up to
// byte e, V[0] = 0. In the order of its beginnings s, each token (s, e) of score w is a candidate: c is V[s]
// + w in double precision (for an unknown character in single precision). If it is the first that ends at e
// or c > V[e], then V[e] becomes c rounded to single precision, and the token that of e. The tokens are then
// read backwards from the end. No token reaches over the ends of a word,
// and no score is positive (word_independence.h).
//
// Let S be V at the beginning of the word, B the exact sum of the scores of its best segmentation, W = -B,
// and m > 0 the difference to any other one. L is the number of its characters, and so at least the number of
// tokens of any segmentation.
//
// 1. Rounding is monotonic. So V[e] never decreases while candidates are compared, and V[s] >= V[e] for the
//    token (s, e) that is chosen. Let x = V[s] + w be exact, and d a bound on the error of rounding it to
//    double and then single precision. Each candidate was either not above V[e] at its time, so V[e] >= c, or
//    became V[e] rounded: V[e] >= x - d for each, and V[e] <= x + d for the one that was chosen.
// 2. So along the best segmentation V grows by at least its scores but d each time: V[end] >= S + B - L d.
//    Along the chosen segmentation, of exact sum T, it grows by at most its scores and d: V[end] <= S + T +
//    L d. Hence T >= B - 2 L d: if m > 2 L d, the chosen segmentation is the best one.
// 3. d. On the chosen segmentation 0 >= S >= V[e] >= V[end]. On the best one V[e] >= S + B - L d, and V[e] <=
//    S. So all these x are at most M = |S| + W + (L + 1) d in size, and d = M (2^-24 + 2^-52), as sums of
//    single-precision numbers that are subnormal are exact. With L <= 2^10, M < (|S| + W) (1 + 2^-12).
// 4. |S| is at most the weights of what stands before, times (1 + 2^-24 + 2^-52) for each token: below 1.07
//    for the 2^20 bytes that a line may have. So 2 L d < 2.2 L 2^-24 (weights before + W), and m > 2^-22 L
//    (weights before + W) is enough, with a factor of 1.8 for the rounding in UnigramMargin, which computes m
//    to 2 L 2^-53 W.

namespace ventris::data {

namespace {

constexpr size_t kPlacesPerWord = 2;
// These bound the memory of all words.
constexpr size_t kLongestCachedWord = 64;  // bytes
constexpr size_t kMaxCachedIds = 255;
constexpr size_t kMaxCachedCharacters = 1024;  // L of the proof
// As in SentencePiece.
constexpr float kUnknownPenalty = 10.0F;
constexpr double kUserDefinedScore = -0.1;

}  // namespace

UnigramMargin::UnigramMargin(std::string_view model)
    : pieces_(std::make_shared<const SubwordPieces>(SentencePieceModel(model))),
      unknown_score_(pieces_->lowest_score() - kUnknownPenalty) {}

UnigramMargin::Sums UnigramMargin::of(std::string_view normalised) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  ends_.assign(normalised.size() + 1, {.best = kNever, .second = kNever});
  ends_[0].best = 0.0;
  uint32_t characters = 0;
  for (size_t at = 0; at < normalised.size(); ++characters) {
    const std::string_view rest = normalised.substr(at);
    const Ends before = ends_[at];
    const auto consider = [&](size_t bytes, double score) {
      Ends& end = ends_[at + bytes];
      const double candidate = before.best + score;
      if (candidate > end.best) {
        end = {.best = candidate, .second = std::max(end.best, before.second + score)};
      } else {
        end.second = std::max(end.second, candidate);
      }
    };
    const size_t character = character_size(rest);
    bool has_character = false;
    pieces_->for_each_prefix(rest, [&](int32_t id, size_t bytes) {
      has_character = has_character || bytes == character;
      consider(bytes, pieces_->is_user_defined(id) ? kUserDefinedScore : pieces_->score(id));
    });
    if (!has_character) consider(character, unknown_score_);
    at += character;
  }
  return {.best = ends_.back().best, .second = ends_.back().second, .characters = characters};
}

CachedEncoder::CachedEncoder(const Tokenizer& tokenizer, bool independent_words, size_t max_words)
    : tokenizer_(tokenizer), independent_words_(independent_words), max_words_(max_words) {
  if (!independent_words_) return;
  if (SentencePieceModel(tokenizer.model()).kind == kModelUnigram) margin_.emplace(tokenizer.model());
  recent_.table.resize(kPlacesPerWord * max_words);
  older_.table.resize(kPlacesPerWord * max_words);
}

void CachedEncoder::encode(std::string_view text, std::vector<int32_t>& ids) {
  ids.clear();
  weights_ = 0.0;
  const bool by_words = independent_words_ && text.find(kSpaceMark) == std::string_view::npos;
  if (!by_words || !append_words(text, ids)) tokenizer_.encode(text, ids);
}

bool CachedEncoder::append_words(std::string_view text, std::vector<int32_t>& ids) {
  while (!text.empty()) {
    const size_t size = std::min(text.find(' '), text.size());
    if (size > 0 && !append_word(text.substr(0, size), ids)) return false;
    text.remove_prefix(std::min(size + 1, text.size()));
  }
  return true;
}

bool CachedEncoder::append_word(std::string_view word, std::vector<int32_t>& ids) {
  if (word.size() > kLongestCachedWord) return false;
  const uint64_t hash = XXH3_64bits(word.data(), word.size());
  if (const Entry& entry = recent_.find(word, hash); entry.text_size != 0)
    return append(recent_.ids_of(entry), entry.weight, entry.limit, ids);
  if (const Entry& entry = older_.find(word, hash); entry.text_size != 0) {
    const auto known = older_.ids_of(entry);
    part_.ids.assign(known.begin(), known.end());
    part_.weight = entry.weight;
    part_.limit = entry.limit;
  } else {
    analyse(word);
  }
  if (part_.ids.size() <= kMaxCachedIds) remember(word, hash);
  return append(part_.ids, part_.weight, part_.limit, ids);
}

bool CachedEncoder::append(std::span<const int32_t> more, float weight, float limit,
                           std::vector<int32_t>& ids) {
  weights_ += weight;
  if (!(weights_ < limit)) return false;
  ids.insert(ids.end(), more.begin(), more.end());
  return true;
}

/// Overwrites part_.
void CachedEncoder::analyse(std::string_view word) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (!margin_) {
    tokenizer_.encode(word, part_.ids);
    part_.limit = kInfinity;
    return;
  }
  tokenizer_.encode(word, part_.ids, normalised_);
  const UnigramMargin::Sums sums = margin_->of(normalised_);
  const double limit = (sums.best - sums.second) / (0x1p-22 * std::max(sums.characters, 1U));
  part_.weight = std::nextafter(static_cast<float>(-sums.best), kInfinity);
  part_.limit =
      sums.characters <= kMaxCachedCharacters ? std::nextafter(static_cast<float>(limit), 0.0F) : 0.0F;
}

/// What part_ says.
void CachedEncoder::remember(std::string_view word, uint64_t hash) {
  Words& words = recent_;
  words.find(word, hash) = {.hash = hash,
                            .text_begin = static_cast<uint32_t>(words.texts.size()),
                            .ids_begin = static_cast<uint32_t>(words.ids.size()),
                            .weight = part_.weight,
                            .limit = part_.limit,
                            .text_size = static_cast<uint8_t>(word.size()),
                            .ids_size = static_cast<uint8_t>(part_.ids.size())};
  words.texts += word;
  words.ids.insert(words.ids.end(), part_.ids.begin(), part_.ids.end());
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

void CachedEncoder::Words::clear() {
  table.assign(table.size(), Entry{});
  texts.clear();
  ids.clear();
  used = 0;
}

}  // namespace ventris::data
