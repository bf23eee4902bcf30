// SPDX-License-Identifier: Apache-2.0
#include "data/scores/paper_bleu.h"

#include <fmt/core.h>

namespace ventris::data {

BleuOptions paper_bleu_options() {
  return {.tokenizer = BleuTokenizer::kNone, .smoothing = BleuSmoothing::kNone};
}

std::string paper_words(std::string_view line, MosesLanguage language, bool is_tokenized) {
  // Entities on one side only would make equal words differ.
  const std::string words =
      is_tokenized ? moses_unescape(line) : moses_tokenize(moses_replace_unicode_punctuation(line), language);
  return split_compounds(words);
}

std::string paper_signature(const PaperProtocol& protocol, int references, const std::string& trials) {
  const std::string moses = fmt::format("moses-{}", name_of(protocol.language));
  std::string tokenizer = moses;
  if (protocol.hypotheses_are_tokenized && protocol.references_are_tokenized) {
    tokenizer = "given";
  } else if (protocol.references_are_tokenized) {
    tokenizer += "/given";
  } else if (protocol.hypotheses_are_tokenized) {
    tokenizer = "given/" + moses;
  }
  return fmt::format("nrefs:{}|{}{}case:mixed|punct:ascii|tok:{}|compounds:split|smooth:none", references,
                     trials, trials.empty() ? "" : "|", tokenizer);
}

}  // namespace ventris::data
