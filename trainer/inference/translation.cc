// SPDX-License-Identifier: Apache-2.0
#include "trainer/inference/translation.h"

#include <algorithm>
#include <iterator>

#include "backend/device/error.h"
#include "comm/communicator.h"
#include "trainer/inference/work_sharing.h"

namespace ventris {
namespace {

BeamSearchOptions with_marks(BeamSearchOptions options, const data::TokenizerPair& tokenizers) {
  options.source_end_id = tokenizers.source().end_id();
  options.begin_id = tokenizers.target().begin_id();
  options.end_id = tokenizers.target().end_id();
  options.unknown_id = tokenizers.target().unknown_id();
  return options;
}

}  // namespace

Translator::Translator(Context& context, Communicator& communicator, const ModelSet& models,
                       const BeamSearchOptions& options)
    : communicator_(communicator),
      tokenizers_(models.tokenizers()),
      longest_sentence_(models.longest_sentence()),
      search_(context, models.search_models(), with_marks(options, tokenizers_)) {}

std::vector<TranslatedLine> Translator::translate(const std::vector<std::string>& lines,
                                                  const std::vector<std::string>& prefixes,
                                                  uint64_t first_number) {
  VENTRIS_CHECK(prefixes.empty() || prefixes.size() == lines.size(), "{} prefixes for {} lines",
                prefixes.size(), lines.size());
  std::vector<TranslatedLine> translated(lines.size());
  std::vector<SourceSentence> sources(lines.size());
  const auto encode = [&](const data::Tokenizer& tokenizer, const std::string& text,
                          std::vector<int32_t>& tokens) {
    tokenizer.encode(text, tokens);
    const size_t all = tokens.size();
    tokens.resize(std::min(all, longest_sentence_));
    return all;
  };
  for (size_t i = 0; i < lines.size(); ++i) {
    sources[i].number = first_number + i;
    translated[i].source_tokens = encode(tokenizers_.source(), lines[i], sources[i].tokens);
    if (!prefixes.empty())
      translated[i].prefix_tokens = encode(tokenizers_.target(), prefixes[i], sources[i].prefix);
  }
  std::vector<std::vector<Hypothesis>> hypotheses =
      translate_on_all_ranks(communicator_, search_, sources).value();
  for (size_t i = 0; i < lines.size(); ++i) {
    translated[i].source = std::move(sources[i].tokens);
    for (Hypothesis& hypothesis : hypotheses[i]) {
      std::string text = tokenizers_.target().decode(hypothesis.tokens);
      translated[i].translations.push_back({.tokens = std::move(hypothesis.tokens),
                                            .text = std::move(text),
                                            .score = hypothesis.score,
                                            .log_probability = hypothesis.log_probability});
    }
  }
  return translated;
}

}  // namespace ventris
