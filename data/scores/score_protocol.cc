// SPDX-License-Identifier: Apache-2.0
#include "data/scores/score_protocol.h"

#include "data/error.h"

namespace ventris::data {

const char* name_of(ScoreProtocol protocol) {
  return protocol == ScoreProtocol::kPaper ? "paper" : "sacrebleu";
}

const char* name_of(TokenizedSides sides) {
  switch (sides) {
    case TokenizedSides::kNone:
      return "none";
    case TokenizedSides::kHypotheses:
      return "hypotheses";
    case TokenizedSides::kReferences:
      return "references";
    case TokenizedSides::kBoth:
      return "both";
  }
  return "";
}

MosesLanguage moses_language(const std::string& code, const std::string& option) {
  for (const auto language :
       {MosesLanguage::kEnglish, MosesLanguage::kGerman, MosesLanguage::kFrench, MosesLanguage::kCzech}) {
    if (code == name_of(language)) return language;
  }
  fail(ErrorKind::kUsage, "{} {}: expected en, de, fr or cs", option, code);
}

std::optional<PaperProtocol> paper_protocol(const ProtocolOptions& options, BleuOptions& bleu) {
  if (options.protocol != ScoreProtocol::kPaper) {
    if (!options.language.empty() || options.tokenized != TokenizedSides::kNone)
      fail(ErrorKind::kUsage, "--language and --tokenized are for --protocol paper");
    return std::nullopt;
  }
  if (options.language.empty())
    fail(ErrorKind::kUsage, "--protocol paper needs the --language of the text: en, de, fr or cs");
  const BleuOptions usual;
  if (bleu.tokenizer != usual.tokenizer || bleu.smoothing != usual.smoothing || bleu.lowercase ||
      bleu.effective_order || bleu.smoothing_value >= 0 || bleu.max_ngram_order != usual.max_ngram_order) {
    fail(
        ErrorKind::kUsage,
        "--protocol paper fixes how BLEU is computed; it cannot be combined with other options of BLEU, such as "
        "--tokenize and --lowercase");
  }
  bleu = paper_bleu_options();
  const auto has = [&](TokenizedSides side) {
    return options.tokenized == side || options.tokenized == TokenizedSides::kBoth;
  };
  return PaperProtocol{.language = moses_language(options.language, "--language"),
                       .hypotheses_are_tokenized = has(TokenizedSides::kHypotheses),
                       .references_are_tokenized = has(TokenizedSides::kReferences)};
}

void to_paper_words(std::vector<std::string>& lines, const PaperProtocol& protocol, bool references) {
  const bool tokenized = references ? protocol.references_are_tokenized : protocol.hypotheses_are_tokenized;
  for (std::string& line : lines) line = paper_words(line, protocol.language, tokenized);
}

}  // namespace ventris::data
