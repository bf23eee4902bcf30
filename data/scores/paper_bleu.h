// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "data/scores/bleu.h"
#include "data/scores/moses_tokenize.h"

namespace ventris::data {

/// Tokenised BLEU by the protocol of the Transformer paper (Vaswani et al. 2017, section 6.1), as the
/// authors' script get_ende_bleu computes it: typographic punctuation in ASCII, the tokenizer of Moses,
/// compounds split at hyphens, BLEU of these words without smoothing, with case. Not comparable with
/// sacreBLEU's.
struct PaperProtocol {
  MosesLanguage language = MosesLanguage::kGerman;
  bool hypotheses_are_tokenized = false;  // already tokenised by Moses; entities are decoded, compounds split
  bool references_are_tokenized = false;  // the same
};

/// BLEU of the words of paper_words().
BleuOptions paper_bleu_options();

/// The words of a line, separated by one space.
std::string paper_words(std::string_view line, MosesLanguage language, bool is_tokenized);

inline constexpr const char* kPaperBleuName = "paper-BLEU";

/// "nrefs:1|case:mixed|punct:ascii|tok:moses-de|compounds:split|smooth:none"; `trials` as for
/// bleu_signature().
std::string paper_signature(const PaperProtocol& protocol, int references, const std::string& trials = {});

}  // namespace ventris::data
