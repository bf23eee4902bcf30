// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/scores/bleu.h"

namespace ventris::data {

/// Whether more than half of the characters of UTF-8 text, without white space, are of scripts without spaces
/// between words: Han, Hiragana, Katakana, Thai, Lao, Tibetan, Myanmar, Khmer.
bool is_unspaced(std::string_view text);

/// Whether the words of BLEU are whole phrases of this text: most of the lines' characters are of such
/// scripts, and the words that contain them, as split by the tokenizer, have more than five of their letters
/// on average (words of these languages have two to four). Uses the first thousand lines.
bool words_are_phrases(const std::vector<std::string>& lines, const BleuOptions& options);

/// The warning if words_are_phrases(); `what` names the text, e.g. "the references".
std::string warning_of_phrases(const std::string& what, const BleuOptions& options);

/// A tokenizer of BLEU with its reason, for a message; the reason is empty for 13a.
struct FittingTokenizer {
  BleuTokenizer tokenizer = BleuTokenizer::k13a;
  std::string reason = {};
};

/// The tokenizer that finds words in these references, by their script: 13a unless words_are_phrases() with
/// it; then zh for Chinese and char for other scripts.
FittingTokenizer fitting_tokenizer(const std::vector<std::string>& references);

}  // namespace ventris::data
