// SPDX-License-Identifier: Apache-2.0
#include "trainer/inference/translation.h"

#include <algorithm>
#include <iterator>

#include "backend/device/error.h"
#include "comm/communicator.h"
#include "trainer/inference/work_sharing.h"

namespace ventris {
namespace {

using Hypotheses = std::vector<std::vector<Hypothesis>>;

/// For gather_numbers().
std::vector<double> numbers_of(const std::vector<Hypothesis>& hypotheses) {
  std::vector<double> numbers;
  for (const Hypothesis& hypothesis : hypotheses) {
    numbers.insert(numbers.end(), {hypothesis.log_probability, hypothesis.score,
                                   static_cast<double>(hypothesis.tokens.size())});
    numbers.insert(numbers.end(), hypothesis.tokens.begin(), hypothesis.tokens.end());
  }
  return numbers;
}

std::vector<Hypothesis> hypotheses_of(const std::vector<double>& numbers) {
  std::vector<Hypothesis> hypotheses;
  for (auto at = numbers.begin(); at != numbers.end();) {
    Hypothesis& hypothesis = hypotheses.emplace_back();
    hypothesis.log_probability = *at++;
    hypothesis.score = *at++;
    const auto tokens = static_cast<std::ptrdiff_t>(*at++);
    std::transform(at, at + tokens, std::back_inserter(hypothesis.tokens),
                   [](double token) { return static_cast<int32_t>(token); });
    at += tokens;
  }
  return hypotheses;
}

BeamSearchOptions with_marks(BeamSearchOptions options, const data::TokenizerPair& tokenizers) {
  options.source_end_id = tokenizers.source().end_id();
  options.begin_id = tokenizers.target().begin_id();
  options.end_id = tokenizers.target().end_id();
  options.unknown_id = tokenizers.target().unknown_id();
  return options;
}

}  // namespace

std::optional<Hypotheses> translate_on_all_ranks(Communicator& communicator, BeamSearch& search,
                                                 const std::vector<SourceSentence>& sources,
                                                 const std::function<bool()>& abandon) {
  std::vector<int64_t> rows;
  for (const SourceSentence& source : sources) rows.push_back(static_cast<int64_t>(source.tokens.size()) + 1);
  const ChunkLimits limits = {.rows = search.options().batch_rows,
                              .sentences = search.options().batch_sentences,
                              .pieces = pieces_for(search.device(), communicator.size())};
  std::vector<std::vector<double>> mine(sources.size() + 1);  // the last: that a rank abandoned the work
  for (const Chunk& own : chunks_of_this_rank(communicator, rows, limits)) {
    if (abandon && abandon()) {
      mine.back() = {1.0};
      break;
    }
    std::vector<SourceSentence> chunk;
    for (const size_t index : own.sentences) chunk.push_back(sources[index]);
    const Hypotheses found = search.translate(chunk);
    for (size_t i = 0; i < found.size(); ++i) mine[own.sentences[i]] = numbers_of(found[i]);
  }
  const std::vector<std::vector<double>> all = gather_numbers(communicator, mine);
  if (!all.back().empty()) return std::nullopt;
  Hypotheses hypotheses(sources.size());
  for (size_t i = 0; i < hypotheses.size(); ++i) hypotheses[i] = hypotheses_of(all[i]);
  return hypotheses;
}

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
  Hypotheses hypotheses = translate_on_all_ranks(communicator_, search_, sources).value();
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
