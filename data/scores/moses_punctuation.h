// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "data/scores/moses_tokenize.h"

namespace ventris::data {

/// Converts quotes, dashes and spaces of each language to ASCII, as normalize-punctuation does before
/// tokenization.
std::string moses_normalize_punctuation(std::string_view line, MosesLanguage language);

/// Converts full-width and typographic punctuation to ASCII, as replace-unicode-punctuation does; as there, a
/// full-width 1 becomes a quotation mark.
std::string moses_replace_unicode_punctuation(std::string_view line);

}  // namespace ventris::data
