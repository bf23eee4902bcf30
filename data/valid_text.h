// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/prepare.h"
#include "data/sentence_pairs.h"
#include "data/text/tokenizer_pair.h"

namespace ventris::data {

/// Tokens to which a side of a ValidText is cut at most.
inline constexpr int64_t kLongestValidLine = 1023;

/// Lines of two files, cleaned as prepare() does: line i of one translates line i of the other.
struct ValidLines {
  std::vector<std::string> source;
  std::vector<std::string> target;
};

/// Errors: those of PairReader and clean_line(); DataError kUsage for the standard input.
ValidLines read_valid_lines(const PairFiles& files);

/// Sentence pairs to validate on, in memory. A pair with a side without tokens is left out, and a side is cut
/// after `longest` tokens, as in prepare().
class ValidText {
 public:
  /// The tokenizers are not kept.
  ValidText(const ValidLines& lines, const TokenizerPair& tokenizers, int64_t longest);
  ValidText(const ValidText&) = delete;
  ValidText& operator=(const ValidText&) = delete;

  SentencePairs pairs() const;  // views of this object
  const std::string& source(int64_t pair) const { return kept_.source[static_cast<size_t>(pair)]; }
  const std::string& target(int64_t pair) const { return kept_.target[static_cast<size_t>(pair)]; }
  /// Hexadecimal, of all lines that were given.
  const std::string& digest() const { return digest_; }

 private:
  struct Side {
    std::vector<int32_t> tokens;
    std::vector<int64_t> offsets = {0};
    void add(const std::vector<int32_t>& ids, int64_t longest);
  };

  ValidLines kept_;
  Side source_;
  Side target_;
  std::string digest_;
};

}  // namespace ventris::data
