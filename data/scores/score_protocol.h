// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/scores/paper_bleu.h"

namespace ventris::data {

enum class ScoreProtocol { kSacrebleu, kPaper };
inline constexpr ScoreProtocol kScoreProtocols[] = {ScoreProtocol::kSacrebleu, ScoreProtocol::kPaper};
const char* name_of(ScoreProtocol protocol);

/// The sides that Moses has tokenised already.
enum class TokenizedSides { kNone, kHypotheses, kReferences, kBoth };
inline constexpr TokenizedSides kTokenizedSides[] = {TokenizedSides::kNone, TokenizedSides::kHypotheses,
                                                     TokenizedSides::kReferences, TokenizedSides::kBoth};
const char* name_of(TokenizedSides sides);

/// How a user asks for a protocol: --protocol, --language and --tokenized.
struct ProtocolOptions {
  ScoreProtocol protocol = ScoreProtocol::kSacrebleu;
  std::string language = {};  // of the paper's protocol
  TokenizedSides tokenized = TokenizedSides::kNone;
};

/// The paper's protocol if requested; then `bleu` becomes its BLEU. Throws DataError kUsage if the options
/// are inconsistent.
std::optional<PaperProtocol> paper_protocol(const ProtocolOptions& options, BleuOptions& bleu);

/// Lines in the form that the protocol compares.
void to_paper_words(std::vector<std::string>& lines, const PaperProtocol& protocol, bool references);

/// "en", "de", "fr" or "cs"; throws DataError kUsage, naming the option, such as "--language".
MosesLanguage moses_language(const std::string& code, const std::string& option);

}  // namespace ventris::data
