#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/bleu.h"

namespace ventris::data {

/// A line cut into words; reused from line to line for its memory.
struct TokenizedLine {
  std::string text;
  std::vector<std::string_view> words;  // of `text`
  std::string scratch;
};

/// The words of bleu_tokenize().
void bleu_words(std::string_view line, const BleuOptions& options, TokenizedLine& result);

}  // namespace ventris::data
