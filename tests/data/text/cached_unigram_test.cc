// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "data/text/cached_encoder.h"
#include "data/text/sentencepiece_format.h"
#include "data/text/tokenizer.h"
#include "data/text/tokenizer_training.h"
#include "data/text/word_independence.h"
#include "tests/data/test_files.h"
#include "tests/data/text/sentencepiece_model.h"
#include "tests/data/text/sentencepiece_training.h"

// SentencePiece itself, which Tokenizer::encode() calls, is the oracle. VENTRIS_ORACLE_LINES=N encodes at
// least N lines with models made at random.

namespace ventris::data {
namespace {

using Ids = std::vector<int32_t>;
using Strings = std::vector<std::string>;

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  size_t below(size_t end) { return engine_() % end; }
  bool one_in(size_t n) { return below(n) == 0; }
  const std::string& of(const Strings& all) { return all[below(all.size())]; }

 private:
  std::mt19937_64 engine_;
};

struct HandMadePiece {
  std::string text;
  float score;
  uint64_t type;
};

struct HandMadeModel {
  std::vector<HandMadePiece> pieces;
  bool byte_fallback = false;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
  bool whitespace_is_suffix = false;

  std::string bytes() const {
    std::string model = marks();
    for (int byte = 0; byte_fallback && byte < 256; ++byte)
      model += piece(fmt::format("<0x{:02X}>", byte), 6);
    for (const HandMadePiece& made : pieces)
      model += field(
          1, field(1, made.text) + field(2, made.score) + std::string{3 << 3, static_cast<char>(made.type)});
    model += field(2, flag(kModelKindField, true) + flag(kWhitespaceAsSuffixField, whitespace_is_suffix) +
                          flag(kByteFallbackField, byte_fallback));
    return model + field(3, flag(kAddDummyPrefixField, add_dummy_prefix) +
                                flag(kRemoveExtraWhitespacesField, remove_extra_whitespaces) +
                                flag(kEscapeWhitespacesField, escape_whitespaces));
  }
};

const std::string& mark() {
  static const std::string text(kSpaceMark);
  return text;
}

/// Few characters and few different scores, so that many segmentations have equal sums; or scores so near
/// that the rounding of what stands before a word decides.
HandMadeModel random_model(Random& random) {
  const Strings characters = {"a", "b", "c", "ä", "日", "1"};
  const bool near = random.one_in(2);
  const bool over_spaces = random.one_in(8);
  const auto score = [&] {
    if (near) return -1.0F - 0x1p-22F * static_cast<float>(random.below(8));
    const float steps[] = {1.0F, 0.5F, 0.1F, 1.7F};
    return -steps[random.below(4)] * static_cast<float>(1 + random.below(6));
  };
  HandMadeModel model;
  Strings texts = {mark()};
  if (random.one_in(10)) texts.clear();
  for (size_t i = 4 + random.below(40); i > 0; --i) {
    std::string text = random.one_in(3) ? mark() : "";
    for (size_t k = 1 + random.below(5); k > 0; --k) text += random.of(characters);
    if (over_spaces && random.one_in(4)) text += mark() + random.of(characters);
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
  }
  const bool with_odd = random.one_in(3);
  for (const std::string& text : texts) {
    const bool odd = with_odd && random.one_in(6);
    const uint64_t type = !odd ? kTypeNormal : random.one_in(2) ? kTypeUserDefined : kTypeUnused;
    // As a rule the score of a piece is about that of its characters, so that none wins always.
    const auto size = near ? static_cast<float>(unsigned(text.size())) : 1.0F;
    model.pieces.push_back({text, size * score(), type});
  }
  if (random.one_in(12)) model.pieces.front().score = 0.5F;
  model.byte_fallback = random.one_in(4);
  if (random.one_in(4)) {
    model.add_dummy_prefix = random.one_in(2);
    model.remove_extra_whitespaces = random.one_in(2);
    model.escape_whitespaces = !random.one_in(3);
    model.whitespace_is_suffix = random.one_in(2);
  }
  return model;
}

std::string random_line(Random& random, const HandMadeModel& model) {
  const Strings parts = {"a",      "b",   "c", "ä", "日", "1", "語", "🙂", "x", std::string(1, '\0'),
                         "\ufeff", mark()};
  const bool odd = random.one_in(4);
  std::string line;
  for (size_t words = random.below(random.one_in(20) ? 400 : 25); words > 0; --words) {
    if (random.one_in(8) && !model.pieces.empty()) {
      const std::string& text = model.pieces[random.below(model.pieces.size())].text;
      line += text.starts_with(mark()) ? text.substr(mark().size()) : text;
    }
    for (size_t k = random.below(random.one_in(30) ? 90 : 7); k > 0; --k)
      line += parts[random.below(odd ? parts.size() : 6)];
    line += random.one_in(10) ? "  " : " ";
  }
  if (!line.empty() && random.one_in(2)) line.pop_back();
  return line;
}

/// Returns the number of lines of which the ids of the words alone are not those of the line.
size_t expect_ids_of_the_line(const Tokenizer& tokenizer, const Strings& lines) {
  CachedEncoder cached(tokenizer, words_are_independent(tokenizer.model()), 256);
  Ids ids;
  size_t different = 0;
  for (const std::string& line : lines) {
    const Ids expected = tokenizer.encode(line);
    cached.encode(line, ids);
    EXPECT_EQ(ids, expected) << "\"" << line << "\"";
    if (::testing::Test::HasFailure()) return different;
    Ids word_by_word;
    for (size_t begin = 0; begin < line.size();) {
      const size_t end = std::min(line.find(' ', begin), line.size());
      const Ids word = tokenizer.encode(line.substr(begin, end - begin));
      word_by_word.insert(word_by_word.end(), word.begin(), word.end());
      begin = end + 1;
    }
    different += word_by_word == expected ? 0 : 1;
  }
  return different;
}

size_t oracle_lines() {
  const char* const text = std::getenv("VENTRIS_ORACLE_LINES");
  return text == nullptr ? 20'000 : std::strtoull(text, nullptr, 10);
}

TEST(CachedUnigramTest, RandomModelsGiveTheIdsOfSentencePiece) {
  constexpr size_t kLinesOfAModel = 100;
  size_t different = 0;
  size_t independent = 0;
  for (size_t model_number = 0; model_number * kLinesOfAModel < oracle_lines(); ++model_number) {
    SCOPED_TRACE(model_number);
    Random random(model_number);
    const HandMadeModel model = random_model(random);
    const Tokenizer tokenizer(model.bytes(), "test");
    Strings lines = {"", " ", "a", mark() + "a"};
    while (lines.size() < kLinesOfAModel) lines.push_back(random_line(random, model));
    const size_t found = expect_ids_of_the_line(tokenizer, lines);
    if (::testing::Test::HasFailure()) return;
    if (!words_are_independent(tokenizer.model())) continue;
    ++independent;
    different += found;
  }
  EXPECT_GT(independent, 20U);
  EXPECT_GT(different, 100U) << "lines in which rounding decides";
}

// "ab" and "a" + "b" differ by less than the rounding of the sums of a long line: the word alone becomes the
// one, but far from the beginning of a line the other.
TEST(CachedUnigramTest, WhatStandsBeforeAWordDecidesNearTies) {
  HandMadeModel model;
  model.pieces = {{mark(), -1.0F, kTypeNormal},
                  {"a", -1.1F, kTypeNormal},
                  {"b", -1.3F, kTypeNormal},
                  {"ab", std::nextafter(-1.1F - 1.3F, 0.0F), kTypeNormal}};
  const Tokenizer tokenizer(model.bytes(), "test");
  ASSERT_TRUE(words_are_independent(tokenizer.model()));
  EXPECT_EQ(tokenizer.encode("ab"), (Ids{3, 6}));
  Strings lines;
  std::string line;
  for (int i = 0; i < 500; ++i) lines.push_back(line += i % 3 == 0 ? "b " : "ab ");
  EXPECT_GT(expect_ids_of_the_line(tokenizer, lines), 10U);
}

}  // namespace
}  // namespace ventris::data
