// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "data/scores/bleu.h"

namespace ventris::data {

/// The tokenized line, whose words are separated by white space (split_words()): in lower case if requested.
std::u32string bleu_text(std::string_view line, const BleuOptions& options);

/// The words of a line with one space between them, as UTF-8.
std::string bleu_tokenize(std::string_view line, const BleuOptions& options);

}  // namespace ventris::data
