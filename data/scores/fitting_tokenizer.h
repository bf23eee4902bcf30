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
/// it; then zh for Chinese and char for other scripts.
FittingTokenizer fitting_tokenizer(const std::vector<std::string>& references);

}  // namespace ventris::data
