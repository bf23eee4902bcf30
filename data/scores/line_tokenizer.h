// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace ventris::data {

struct BleuOptions;

/// A tokenizer of BLEU that needs a file from the user.
struct LineTokenizer {
  std::string label;  // in signatures: "flores200", "ja-mecab-0.996-IPA"
  /// The words of a line of UTF-8, separated by spaces. Not thread-safe.
  std::function<std::string(std::string_view line)> cut;
};

/// Whether the tokenizer of these options needs a LineTokenizer.
bool needs_line_tokenizer(const BleuOptions& options);

/// Loads options.line_tokenizer, if the tokenizer needs one, from options.tokenizer_path, which the user sets
/// with `option`: spm, flores101 and flores200 from a SentencePiece model, ja-mecab and ko-mecab from the
/// folder of a MeCab dictionary (for ja-mecab that of Debian's mecab-ipadic-utf8 if the path is empty).
/// Throws DataError kUsage if a path is missing, or given for a tokenizer that takes none; kMissingInput if a
/// file or the MeCab library is missing; kBadData if a file is not of the expected kind.
void load_line_tokenizer(BleuOptions& options, const std::string& option);

}  // namespace ventris::data
