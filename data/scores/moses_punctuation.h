#pragma once

#include <string>
#include <string_view>

#include "data/scores/moses_tokenize.h"

namespace ventris::data {

/// Quotes, dashes and spaces of each language in ASCII, as normalize-punctuation does before tokenization.
std::string moses_normalize_punctuation(std::string_view line, MosesLanguage language);

/// Full-width and typographic punctuation in ASCII, as replace-unicode-punctuation does; a full-width 1
/// becomes a quotation mark there, and here.
std::string moses_replace_unicode_punctuation(std::string_view line);

}  // namespace ventris::data
