#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace ventris::data {

struct BleuOptions;

/// A tokenizer of BLEU that works with a file of the user's.
struct LineTokenizer {
  std::string label;  // in signatures: "flores200", "ja-mecab-0.996-IPA"
  /// The words of a line of UTF-8, spaces between them. Not for two threads at once.
  std::function<std::string(std::string_view line)> cut;
};

/// Whether the tokenizer of these options needs a LineTokenizer.
bool needs_line_tokenizer(const BleuOptions& options);

/// Loads options.line_tokenizer, where the tokenizer needs one, from options.tokenizer_path, which the user
/// gives with `option`: spm, flores101 and flores200 from a SentencePiece model, ja-mecab and ko-mecab from
/// the folder of a MeCab dictionary (for ja-mecab that of Debian's mecab-ipadic-utf8 where the path is
/// empty). Throws DataError kUsage where a path is missing, or given to a tokenizer that takes none;
/// kMissingInput where a file or the MeCab library is missing; kBadData where a file is not what it should
/// be.
void load_line_tokenizer(BleuOptions& options, const std::string& option);

}  // namespace ventris::data
