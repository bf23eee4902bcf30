// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/scores/bleu.h"

namespace ventris::data {

/// A line split into words; reused for its memory.
struct TokenizedLine {
  enum Class : unsigned char { kOther, kSpace, kPunctuation, kSymbol, kNumber };
  struct Character {
    uint32_t begin = 0;  // byte
    Class kind = kOther;
    bool cut = false;  // the tokenizer writes a space before it
  };

  std::string text;
  std::vector<std::string_view> words;  // of `text`
  std::string scratch;
  std::vector<Character> characters;
};

/// The words of bleu_tokenize(). Requires a loaded tokenizer.
void bleu_words(std::string_view line, const BleuOptions& options, TokenizedLine& result);

/// The words of a line, one space between them: in lower case if requested, without white space at the end,
/// tokenized.
std::string bleu_tokenize(std::string_view line, const BleuOptions& options);

}  // namespace ventris::data
