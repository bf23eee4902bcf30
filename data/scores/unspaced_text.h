// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/scores/bleu.h"

namespace ventris::data {

/// Han, Hiragana, Katakana, Thai, Lao, Tibetan, Myanmar, Khmer: scripts without spaces between words.
bool is_of_unspaced_script(char32_t c);

/// Whether more than half of the characters of UTF-8 text, without white space, are of such scripts.
bool is_unspaced(std::string_view text);

/// Whether the words of BLEU are whole phrases of this text: most of the lines' characters are of such
/// scripts, and the words that contain them, as split by the tokenizer, have more than five of their letters
/// on average (words of these languages have two to four). Uses the first thousand lines.
bool words_are_phrases(const std::vector<std::string>& lines, const BleuOptions& options);

/// The warning if words_are_phrases(); `what` names the text, e.g. "the references".
std::string warning_of_phrases(const std::string& what, const BleuOptions& options);

}  // namespace ventris::data
