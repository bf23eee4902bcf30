#include "data/bleu_tokenize.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "data/bleu_unicode.h"
#include "data/score_text.h"
#include "data/unicode_pairs.h"

namespace ventris::data {
namespace {

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

/// The characters that stand alone for sacreBLEU's tokenizer zh. Its table means to hold the supplementary
/// ideographs (U+20000 to U+2A6D6 and U+2F800 to U+2FA1D) but has U+2001 to U+2A6D and U+2F81 to U+2FA1.
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

/// mteval-v14 --international-tokenization.
std::u32string tokenize_international(std::u32string text) {
  const auto not_number = [](char32_t c) { return !unicode::is_number(c); };
  text = separate_pairs(text, not_number, unicode::is_punctuation, U"", U" ", U" ");
  text = separate_pairs(text, unicode::is_punctuation, not_number, U" ", U" ", U"");
  return separate_single(text, unicode::is_symbol);
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
  switch (options.tokenizer) {
    case BleuTokenizer::k13a:
      tokenize_13a(text, result.scratch);
      break;
    case BleuTokenizer::kInternational:
      text = unicode::encode(tokenize_international(unicode::decode(text)));
      break;
    case BleuTokenizer::kChar:
      text = unicode::encode(separate_single(unicode::decode(text), [](char32_t) { return true; }));
      break;
    case BleuTokenizer::kChinese:
      tokenize_chinese(text, result.scratch);
      break;
    case BleuTokenizer::kNone:
      break;
  }
  result.words.clear();
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
