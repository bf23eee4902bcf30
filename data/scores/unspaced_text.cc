// SPDX-License-Identifier: Apache-2.0
#include "data/scores/unspaced_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "data/scores/bleu.h"
#include "data/scores/score_text.h"
#include "data/text/unicode.h"

namespace ventris::data {
namespace {

constexpr size_t kLinesCounted = 1000;
constexpr int64_t kLettersOfAWord = 5;  // of a language whose words are long, on average

bool is_of_unspaced_script(char32_t c) {
  constexpr std::pair<char32_t, char32_t> kRanges[] = {
      {0x0E01, 0x0E5B},  {0x0E81, 0x0EDF}, {0x0F00, 0x0FD8}, {0x1000, 0x109F}, {0x1780, 0x17F9},
      {0x19E0, 0x19FF},  {0x2E80, 0x2FD5}, {0x3005, 0x3007}, {0x3021, 0x3029}, {0x3038, 0x303B},
      {0x3041, 0x309F},  {0x30A1, 0x30FF}, {0x31F0, 0x31FF}, {0x3400, 0x4DBF}, {0x4E00, 0x9FFF},
      {0xA9E0, 0xA9FE},  {0xAA60, 0xAA7F}, {0xF900, 0xFAD9}, {0xFF66, 0xFF9F}, {0x1AFF0, 0x1B167},
      {0x20000, 0x323AF}};
  return std::any_of(std::begin(kRanges), std::end(kRanges),
                     [c](const auto& range) { return c >= range.first && c <= range.second; });
}

bool is_kana(char32_t c) {
  return (c >= 0x3041 && c <= 0x309F) || (c >= 0x30A1 && c <= 0x30FF) || (c >= 0x31F0 && c <= 0x31FF) ||
         (c >= 0xFF66 && c <= 0xFF9F);
}

struct Characters {
  int64_t all = 0;  // except white space
  int64_t unspaced = 0;
  int64_t unspaced_letters = 0;  // without marks above and below them
  int64_t kana = 0;
  int64_t han = 0;

  void add(std::u32string_view text) {
    for (const char32_t c : text) {
      if (unicode::is_space(c)) continue;
      ++all;
      if (!is_of_unspaced_script(c)) continue;
      ++unspaced;
      if (unicode::is_alphabetic(c)) ++unspaced_letters;
      if (is_kana(c)) ++kana;
      if (unicode::is_han(c)) ++han;
    }
  }
  bool mostly_unspaced() const { return 2 * unspaced > all; }
};

}  // namespace

bool is_unspaced(std::string_view text) {
  Characters characters;
  characters.add(unicode::decode(text));
  return characters.mostly_unspaced();
}

bool words_are_phrases(const std::vector<std::string>& lines, const BleuOptions& options) {
  Characters characters;
  int64_t words = 0;  // with such letters
  for (size_t i = 0; i < std::min(lines.size(), kLinesCounted); ++i) {
    const std::u32string text = bleu_text(lines[i], options);
    for (const std::u32string_view word : split_words(text)) {
      const int64_t before = characters.unspaced_letters;
      characters.add(word);
      if (characters.unspaced_letters > before) ++words;
    }
  }
  return characters.mostly_unspaced() && characters.unspaced_letters > kLettersOfAWord * words;
}

std::string warning_of_phrases(const std::string& what, const BleuOptions& options) {
  return fmt::format(
      "{} put no spaces between words, "
      "so BLEU with the tokenizer {} takes whole phrases for words and is near 0 for any translations. "
      "chrF needs no words; zh tokenizes Chinese, char any text",
      what, name_of(options.tokenizer));
}

FittingTokenizer fitting_tokenizer(const std::vector<std::string>& references) {
  if (!words_are_phrases(references, {})) return {};
  Characters characters;
  for (size_t i = 0; i < std::min(references.size(), kLinesCounted); ++i)
    characters.add(unicode::decode(references[i]));
  constexpr int64_t kShareOfKana = 20;  // Chinese text has hardly any, Japanese about two thirds
  const int64_t both = characters.kana + characters.han;
  if (2 * both > characters.unspaced && kShareOfKana * characters.kana < both)
    return {BleuTokenizer::kChinese, "the references are Chinese"};
  return {BleuTokenizer::kChar, "the references put no spaces between words"};
}

}  // namespace ventris::data
