// SPDX-License-Identifier: Apache-2.0
#include "data/scores/paper_bleu.h"

#include <fmt/core.h>

#include "data/error.h"

namespace ventris::data {

std::optional<MosesLanguage> paper_language(const ProtocolOptions& options, BleuOptions& bleu) {
  if (!options.paper) {
    if (!options.language.empty()) fail(ErrorKind::kUsage, "--language is for --protocol paper");
    return std::nullopt;
  }
  const BleuOptions usual;
  if (bleu.tokenizer != usual.tokenizer || bleu.smoothing != usual.smoothing || bleu.lowercase ||
      bleu.effective_order || bleu.smoothing_value >= 0 || bleu.max_ngram_order != usual.max_ngram_order) {
    fail(
        ErrorKind::kUsage,
        "--protocol paper fixes how BLEU is computed; it cannot be combined with other options of BLEU, such as "
        "--tokenize and --lowercase");
  }
  bleu = {.tokenizer = BleuTokenizer::kNone, .smoothing = BleuSmoothing::kNone};
  for (const auto language :
       {MosesLanguage::kEnglish, MosesLanguage::kGerman, MosesLanguage::kFrench, MosesLanguage::kCzech}) {
    if (options.language == name_of(language)) return language;
  }
  fail(ErrorKind::kUsage, "--protocol paper needs the --language of the text: en, de, fr or cs{}",
       options.language.empty() ? "" : fmt::format(", not '{}'", options.language));
}

std::string paper_words(std::string_view line, MosesLanguage language) {
  return split_compounds(moses_tokenize(moses_replace_unicode_punctuation(line), language));
}

void to_paper_words(std::vector<std::string>& lines, MosesLanguage language) {
  for (std::string& line : lines) line = paper_words(line, language);
}

std::string paper_signature(MosesLanguage language, int references, const std::string& trials) {
  return fmt::format("nrefs:{}|{}{}case:mixed|punct:ascii|tok:moses-{}|compounds:split|smooth:none",
                     references, trials, trials.empty() ? "" : "|", name_of(language));
}

}  // namespace ventris::data
