// SPDX-License-Identifier: Apache-2.0
#include "data/scores/fitting_tokenizer.h"

#include <algorithm>
#include <cstdint>

#include "data/scores/unspaced_text.h"
#include "data/text/unicode.h"

namespace ventris::data {
namespace {

constexpr size_t kLinesLookedAt = 1000;

bool is_kana(char32_t c) {
  return (c >= 0x3041 && c <= 0x309F) || (c >= 0x30A1 && c <= 0x30FF) || (c >= 0x31F0 && c <= 0x31FF) ||
         (c >= 0xFF66 && c <= 0xFF9F);
}

}  // namespace

FittingTokenizer fitting_tokenizer(const std::vector<std::string>& references) {
  if (!words_are_phrases(references, {})) return {};
  int64_t kana = 0;
  int64_t han = 0;
  int64_t unspaced = 0;
  for (size_t i = 0; i < std::min(references.size(), kLinesLookedAt); ++i) {
    for (const char32_t c : unicode::decode(references[i])) {
      kana += is_kana(c) ? 1 : 0;
      han += unicode::is_han(c) ? 1 : 0;
      unspaced += is_of_unspaced_script(c) ? 1 : 0;
    }
  }
  constexpr int64_t kShareOfKana = 20;  // Chinese text has hardly any, Japanese about two thirds
  if (2 * (kana + han) > unspaced && kShareOfKana * kana < kana + han)
    return {BleuTokenizer::kChinese, "the references are Chinese"};
  return {BleuTokenizer::kChar, "the references put no spaces between words"};
}

}  // namespace ventris::data
