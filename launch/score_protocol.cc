#include "launch/score_protocol.h"

#include "backend/error.h"

namespace ventris {

void add_protocol_options(ProtocolOptions& options, OptionTable& table) {
  using Tokenized = ProtocolOptions::Tokenized;
  table.group("Protocol");
  table.choice<bool>(
      "protocol", options.paper, {{"sacrebleu", false}, {"paper", true}},
      "paper: tokenised BLEU as in the Transformer paper: the tokenizer of Moses, compounds split "
      "at hyphens, no smoothing. It is labelled as such, and is not comparable with scores of sacreBLEU.");
  table.text("language", "en|de|fr|cs", options.language, "Language of the text, for --protocol paper.");
  table.choice<Tokenized>(
      "tokenized", options.tokenized,
      {{"none", Tokenized::kNone},
       {"hypotheses", Tokenized::kHypotheses},
       {"references", Tokenized::kReferences},
       {"both", Tokenized::kBoth}},
      "With --protocol paper: text that is already tokenised by Moses; only its compounds are split.");
}

data::MosesLanguage moses_language(const std::string& code) {
  for (const auto language : {data::MosesLanguage::kEnglish, data::MosesLanguage::kGerman,
                              data::MosesLanguage::kFrench, data::MosesLanguage::kCzech}) {
    if (code == data::name_of(language)) return language;
  }
  fail(ExitCode::kUsage, "--language {}: expected en, de, fr or cs", code);
}

std::optional<data::PaperProtocol> paper_protocol(const ProtocolOptions& options, data::BleuOptions& bleu) {
  using Tokenized = ProtocolOptions::Tokenized;
  if (!options.paper) {
    if (!options.language.empty() || options.tokenized != Tokenized::kNone)
      fail(ExitCode::kUsage, "--language and --tokenized are for --protocol paper");
    return std::nullopt;
  }
  if (options.language.empty())
    fail(ExitCode::kUsage, "--protocol paper needs the --language of the text: en, de, fr or cs");
  const data::BleuOptions usual;
  if (bleu.tokenizer != usual.tokenizer || bleu.smoothing != usual.smoothing || bleu.lowercase ||
      bleu.effective_order || bleu.smoothing_value >= 0 || bleu.max_ngram_order != usual.max_ngram_order) {
    fail(ExitCode::kUsage,
         "--protocol paper fixes how BLEU is computed; "
         "it cannot be combined with other options of the group BLEU");
  }
  bleu = data::paper_bleu_options();
  return data::PaperProtocol{.language = moses_language(options.language),
                             .hypotheses_are_tokenized = options.tokenized == Tokenized::kHypotheses ||
                                                         options.tokenized == Tokenized::kBoth,
                             .references_are_tokenized = options.tokenized == Tokenized::kReferences ||
                                                         options.tokenized == Tokenized::kBoth};
}

void to_paper_words(std::vector<std::string>& lines, const data::PaperProtocol& protocol, bool references) {
  const bool tokenized = references ? protocol.references_are_tokenized : protocol.hypotheses_are_tokenized;
  for (std::string& line : lines) line = data::paper_words(line, protocol.language, tokenized);
}

}  // namespace ventris
