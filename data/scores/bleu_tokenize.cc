// SPDX-License-Identifier: Apache-2.0
#include "data/scores/bleu_tokenize.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <utility>

#include "data/scores/score_text.h"
#include "data/scores/unicode_pairs.h"
#include "data/text/unicode.h"

namespace ventris::data {
namespace {

using Line = TokenizedLine;

/// mteval-v13a.
void tokenize_13a(std::string& text, std::string& scratch) {
  replace_all(text, "<skipped>", "");
  if (text.find('\n') != std::string::npos) {
    replace_all(text, "-\n", "");
    replace_all(text, "\n", " ");
  }
  replace_entities(text);
  text.insert(text.begin(), ' ');
  text.push_back(' ');
  separate_punctuation(text, scratch);
  separate_numbers(text, scratch);
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

void tokenize_chinese(std::string& text, std::string& scratch) {
  text = unicode::encode(separate_single(unicode::decode(strip(text)), stands_alone_in_chinese));
  separate_punctuation(text, scratch);
  separate_numbers(text, scratch);
}

Line::Class class_of(char32_t c) {
  if (unicode::is_space(c)) return Line::kSpace;
  if (unicode::is_punctuation(c)) return Line::kPunctuation;
  if (unicode::is_symbol(c)) return Line::kSymbol;
  return unicode::is_number(c) ? Line::kNumber : Line::kOther;
}

void classify(std::string_view text, std::vector<Line::Character>& characters) {
  static const std::array<Line::Class, 0x80> kAscii = [] {
    std::array<Line::Class, 0x80> classes{};
    for (char32_t c = 0; c < classes.size(); ++c) classes[c] = class_of(c);
    return classes;
  }();
  characters.clear();
  for (size_t at = 0; at < text.size();) {
    const auto begin = static_cast<uint32_t>(at);
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte < 0x80) {
      characters.push_back({begin, kAscii[byte], false});
      ++at;
      continue;
    }
    char32_t c = 0;
    const size_t length = unicode::decode_one(text, at, c);
    characters.push_back({begin, length == 0 ? Line::kOther : class_of(c), false});
    at += std::max<size_t>(length, 1);
  }
  characters.push_back({static_cast<uint32_t>(text.size()), Line::kSpace, false});  // the end
}

/// mteval-v14 --international-tokenization: three consecutive substitutions that insert spaces; the matches
/// of one do not overlap. The words are found without writing the text.
///   (not N)(P) -> \1 " " \2 " "     (P)(not N) -> " " \1 " " \2     (S) -> " " \1 " "
void tokenize_international(TokenizedLine& line) {
  std::vector<Line::Character>& characters = line.characters;
  classify(line.text, characters);
  const size_t count = characters.size() - 1;
  for (size_t i = 0; i + 1 < count; ++i) {
    if (characters[i].kind == Line::kNumber || characters[i + 1].kind != Line::kPunctuation) continue;
    characters[i + 1].cut = true;
    characters[i + 2].cut = true;
    ++i;
  }
  for (size_t i = 0; i < count; ++i) {
    if (characters[i].kind != Line::kPunctuation) continue;
    const bool space_follows =
        characters[i + 1].cut;  // written by the first substitution, and part of the match
    if (!space_follows && (i + 1 == count || characters[i + 1].kind == Line::kNumber)) continue;
    characters[i].cut = true;
    characters[i + 1].cut = true;
    if (!space_follows) ++i;
  }
  const std::string_view text = line.text;
  uint32_t begin = 0;
  const auto end_word = [&](uint32_t end) {
    if (end > begin) line.words.push_back(text.substr(begin, end - begin));
    begin = end;
  };
  for (size_t i = 0; i <= count; ++i) {
    const Line::Character& c = characters[i];
    if (c.cut || c.kind == Line::kSpace || c.kind == Line::kSymbol ||
        (i > 0 && characters[i - 1].kind == Line::kSymbol))
      end_word(c.begin);
    if (c.kind == Line::kSpace && i < count) begin = characters[i + 1].begin;
  }
}

}  // namespace

void bleu_words(std::string_view line, const BleuOptions& options, TokenizedLine& result) {
  std::string& text = result.text;
  if (options.lowercase) {
    text = lower_text(line);
    text.resize(strip_end(text).size());
  } else {
    text = strip_end(line);
  }
  result.words.clear();
  switch (options.tokenizer) {
    case BleuTokenizer::k13a:
      tokenize_13a(text, result.scratch);
      break;
    case BleuTokenizer::kInternational:
      tokenize_international(result);
      return;
    case BleuTokenizer::kChar:
      text = unicode::encode(separate_single(unicode::decode(text), [](char32_t) { return true; }));
      break;
    case BleuTokenizer::kChinese:
      tokenize_chinese(text, result.scratch);
      break;
    case BleuTokenizer::kNone:
      break;
  }
  split_words(text, result.words);
}

std::string bleu_tokenize(std::string_view line, const BleuOptions& options) {
  TokenizedLine tokenized;
  bleu_words(line, options, tokenized);
  std::string joined;
  for (const std::string_view word : tokenized.words) {
    if (!joined.empty()) joined.push_back(' ');
    joined.append(word);
  }
  return joined;
}

}  // namespace ventris::data
