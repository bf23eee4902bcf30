// SPDX-License-Identifier: Apache-2.0
#include "data/scores/bleu_tokenize.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "data/scores/score_text.h"
#include "data/text/unicode.h"

namespace ventris::data {
namespace {

using Text = std::u32string;

bool is_digit(char32_t c) {
  return c >= U'0' && c <= U'9';
}

/// ASCII punctuation other than ' . , - and the space.
bool is_separated(char32_t c) {
  return (c >= U'{' && c <= U'~') || (c >= U'[' && c <= U'`') || (c >= U' ' && c <= U'&') ||
         (c >= U'(' && c <= U'+') || (c >= U':' && c <= U'@') || c == U'/';
}

/// What mteval-v13a and the tokenizer zh of sacreBLEU share: punctuation stands alone, so do periods and
/// commas that are not inside numbers, and a dash after a digit.
Text separate_punctuation(const Text& text) {
  const auto not_digit = [](char32_t c) { return !is_digit(c); };
  const auto period_or_comma = [](char32_t c) { return c == U'.' || c == U','; };
  const auto dash = [](char32_t c) { return c == U'-'; };
  Text result = separate_single(text, is_separated);
  result = separate_pairs(result, not_digit, period_or_comma, U"", U" ", U" ");
  result = separate_pairs(result, period_or_comma, not_digit, U" ", U" ", U"");
  return separate_pairs(result, is_digit, dash, U"", U" ", U" ");
}

/// mteval-v13a.
Text tokenize_13a(Text text) {
  const std::pair<const char32_t*, const char32_t*> kReplacements[] = {
      {U"<skipped>", U""}, {U"-\n", U""},   {U"\n", U" "},  {U"&quot;", U"\""},
      {U"&amp;", U"&"},    {U"&lt;", U"<"}, {U"&gt;", U">"}};
  for (const auto& [from, to] : kReplacements) replace_all<Text>(text, from, to);
  return separate_punctuation(U' ' + text + U' ');
}

/// The characters that are separate words for sacreBLEU's tokenizer zh. Its table is meant to have the
/// supplementary ideographs (U+20000 to U+2A6D6 and U+2F800 to U+2FA1D) but has U+2001 to U+2A6D and U+2F81
/// to U+2FA1.
bool stands_alone_in_chinese(char32_t c) {
  constexpr std::pair<char32_t, char32_t> kRanges[] = {
      {0x2001, 0x2A6D}, {0x2E80, 0x2EFF}, {0x2F00, 0x2FDF}, {0x2FF0, 0x2FFF}, {0x3000, 0x303F},
      {0x3100, 0x312F}, {0x31A0, 0x31BF}, {0x31C0, 0x31EF}, {0x3200, 0x33FF}, {0x3400, 0x4DB5},
      {0x4E00, 0x9FBB}, {0xF900, 0xFA2D}, {0xFA30, 0xFA6A}, {0xFA70, 0xFAD9}, {0xFE10, 0xFE1F},
      {0xFE30, 0xFE4F}, {0xFF00, 0xFFEF}};
  return std::any_of(std::begin(kRanges), std::end(kRanges),
                     [c](const auto& range) { return c >= range.first && c <= range.second; });
}

/// mteval-v14 --international-tokenization.
Text tokenize_international(const Text& text) {
  const auto not_number = [](char32_t c) { return !unicode::is_number(c); };
  Text result = separate_pairs(text, not_number, unicode::is_punctuation, U"", U" ", U" ");
  result = separate_pairs(result, unicode::is_punctuation, not_number, U" ", U" ", U"");
  return separate_single(result, unicode::is_symbol);
}

}  // namespace

std::u32string bleu_text(std::string_view line, const BleuOptions& options) {
  Text text = unicode::decode(line);
  if (options.lowercase) text = unicode::lower(text);
  text.resize(strip_end(text).size());
  switch (options.tokenizer) {
    case BleuTokenizer::k13a:
      return tokenize_13a(std::move(text));
    case BleuTokenizer::kInternational:
      return tokenize_international(text);
    case BleuTokenizer::kChar:
      return separate_single(text, [](char32_t) { return true; });
    case BleuTokenizer::kChinese:
      text.erase(0, static_cast<size_t>(std::ranges::find_if_not(text, unicode::is_space) - text.begin()));
      return separate_punctuation(separate_single(text, stands_alone_in_chinese));
    case BleuTokenizer::kNone:
      break;
  }
  return text;
}

std::string bleu_tokenize(std::string_view line, const BleuOptions& options) {
  const Text text = bleu_text(line, options);
  Text joined;
  for (const std::u32string_view word : split_words(text)) {
    if (!joined.empty()) joined.push_back(U' ');
    joined.append(word);
  }
  return unicode::encode(joined);
}

}  // namespace ventris::data
