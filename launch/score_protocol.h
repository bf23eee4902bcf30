#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/scores/paper_bleu.h"
#include "launch/option_table.h"

namespace ventris {

/// --protocol, --language and --tokenized of bleu and evaluate.
struct ProtocolOptions {
  bool paper = false;
  std::string language;
  enum class Tokenized { kNone, kHypotheses, kReferences, kBoth } tokenized = Tokenized::kNone;
};

void add_protocol_options(ProtocolOptions& options, OptionTable& table);

/// The paper's protocol if requested; then `bleu` becomes its BLEU. Throws Error(kUsage) if the options are
/// inconsistent.
std::optional<data::PaperProtocol> paper_protocol(const ProtocolOptions& options, data::BleuOptions& bleu);

/// Lines in the form that the protocol compares.
void to_paper_words(std::vector<std::string>& lines, const data::PaperProtocol& protocol, bool references);

/// "en", "de", "fr" or "cs"; throws Error(kUsage), naming the option.
data::MosesLanguage moses_language(const std::string& code);

}  // namespace ventris
