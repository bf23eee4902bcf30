// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/scores/bleu.h"
#include "data/scores/moses_tokenize.h"

// Tokenised BLEU by the protocol of the Transformer paper (Vaswani et al. 2017, section 6.1), as the authors'
// script get_ende_bleu computes it: typographic punctuation in ASCII, the tokenizer of Moses, compounds split
// at hyphens, BLEU of these words without smoothing, with case. Not comparable with sacreBLEU's.

namespace ventris::data {

/// How a user asks for a protocol: --protocol and --language.
struct ProtocolOptions {
  bool paper = false;         // otherwise sacreBLEU's
  std::string language = {};  // of the paper's protocol
};

/// The language of the paper's protocol if that is requested; then `bleu` becomes its BLEU. Throws DataError
/// kUsage if the options are inconsistent.
std::optional<MosesLanguage> paper_language(const ProtocolOptions& options, BleuOptions& bleu);

/// The words of a line that the protocol compares, separated by one space.
std::string paper_words(std::string_view line, MosesLanguage language);
void to_paper_words(std::vector<std::string>& lines, MosesLanguage language);

inline constexpr const char* kPaperBleuName = "paper-BLEU";

/// "nrefs:1|case:mixed|punct:ascii|tok:moses-de|compounds:split|smooth:none"; `trials` as for
/// bleu_signature().
std::string paper_signature(MosesLanguage language, int references, const std::string& trials = {});

}  // namespace ventris::data
