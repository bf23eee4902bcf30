// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ventris::data {

/// The rules of the tokenizer and of the two punctuation scripts of Moses (Koehn et al. 2007), with which the
/// text of most papers on translation was prepared. Lines are UTF-8 without LF; bytes that are not UTF-8 are
/// kept.
enum class MosesLanguage { kEnglish, kGerman, kFrench, kCzech };

/// "en", "de", "fr", "cs"
const char* name_of(MosesLanguage language);

struct MosesOptions {
  MosesLanguage language = MosesLanguage::kEnglish;
  bool escape = true;  // & | < > ' " [ ] as entities
};

/// Words and punctuation with one space between them.
std::string moses_tokenize(std::string_view line, const MosesOptions& options);

/// The characters that the tokenizer escapes, instead of their entities.
std::string moses_unescape(std::string_view tokenized);

/// "rich-text" as "rich ##AT##-##AT## text": a hyphen between characters of one word, from left to right,
/// each character consumed once (so that in "a-b-c" only the first is split). The form of the scores of the
/// Transformer paper for German, and of the papers before it.
std::string split_compounds(std::string_view tokenized);

}  // namespace ventris::data
