// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace ventris::data {

/// The rules of the tokenizer of Moses and of its replace-unicode-punctuation (Koehn et al. 2007), with which
/// the text of most papers on translation was prepared. Lines are UTF-8 without LF; bytes that are not UTF-8
/// are kept.
enum class MosesLanguage { kEnglish, kGerman, kFrench, kCzech };

/// "en", "de", "fr", "cs"
const char* name_of(MosesLanguage language);

/// Words and punctuation with one space between them; & | < > ' " [ ] are not escaped.
std::string moses_tokenize(std::string_view line, MosesLanguage language);

/// Converts full-width and typographic punctuation to ASCII, as replace-unicode-punctuation does; as there, a
/// full-width 1 becomes a quotation mark.
std::string moses_replace_unicode_punctuation(std::string_view line);

/// "rich-text" as "rich ##AT##-##AT## text": a hyphen between characters of one word, from left to right,
/// each character consumed once (so that in "a-b-c" only the first is split). The form of the scores of the
/// Transformer paper for German, and of the papers before it.
std::string split_compounds(std::string_view tokenized);

}  // namespace ventris::data
