// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "data/scores/bleu.h"

namespace ventris::data {

/// A tokenizer of BLEU with its reason, for a message; the reason is empty for 13a.
struct FittingTokenizer {
  BleuTokenizer tokenizer = BleuTokenizer::k13a;
  std::string reason = {};
};

/// The tokenizer that finds words in these references, by their script: 13a unless words_are_phrases() with
/// it; then ja-mecab for Japanese, or char without `has_mecab`; zh for Chinese; char for other scripts.
FittingTokenizer fitting_tokenizer(const std::vector<std::string>& references, bool has_mecab);

/// Whether ja-mecab works here without a file from the user: MeCab and its dictionary are installed.
bool has_japanese_mecab();

}  // namespace ventris::data
