#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/scores/bleu.h"

namespace ventris::data {

/// Han, Hiragana, Katakana, Thai, Lao, Tibetan, Myanmar, Khmer: scripts that put no spaces between words.
bool is_of_unspaced_script(char32_t c);

/// Whether more than half of the characters of UTF-8 text, white space left out, are of such scripts.
bool is_unspaced(std::string_view text);

/// Whether the words of BLEU are not words of this text but whole phrases: most of the lines' characters are
/// of such scripts, and the words of which they are part, as the tokenizer cuts them, have more than five of
/// their letters on average (words of these languages have two to four). Looks at the first thousand lines.
bool words_are_phrases(const std::vector<std::string>& lines, const BleuOptions& options);

/// What to tell where words_are_phrases(), of text that `what` names: "the references".
std::string warning_of_phrases(const std::string& what, const BleuOptions& options);

}  // namespace ventris::data
