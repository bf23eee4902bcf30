// SPDX-License-Identifier: Apache-2.0
#include "trainer/inference/translation.h"

#include <algorithm>
#include <cstring>

#include "backend/error.h"
#include "comm/communicator.h"
#include "trainer/inference/work_sharing.h"

namespace ventris {
namespace {

using Hypotheses = std::vector<std::vector<Hypothesis>>;

class HypothesisWriter {
 public:
  template <typename T>
  void put(const T& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  std::string bytes;
};

class HypothesisReader {
 public:
  explicit HypothesisReader(const std::string& bytes) : bytes_(bytes) {}
  template <typename T>
  T get() {
    VENTRIS_CHECK(at_ + sizeof(T) <= bytes_.size(), "{} bytes of hypotheses end early", bytes_.size());
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  const std::string& bytes_;
  size_t at_ = 0;
};

void put(HypothesisWriter& writer, size_t index, const std::vector<Hypothesis>& hypotheses) {
  writer.put(static_cast<uint64_t>(index));
  writer.put(static_cast<uint32_t>(hypotheses.size()));
  for (const Hypothesis& hypothesis : hypotheses) {
    writer.put(hypothesis.log_probability);
    writer.put(hypothesis.score);
    writer.put(static_cast<uint32_t>(hypothesis.tokens.size()));
    for (const int32_t token : hypothesis.tokens) writer.put(token);
  }
}

void take(HypothesisReader& reader, Hypotheses& all) {
  const auto index = static_cast<size_t>(reader.get<uint64_t>());
  VENTRIS_CHECK(index < all.size(), "hypotheses of sentence {} of {}", index, all.size());
  std::vector<Hypothesis>& hypotheses = all[index];
  hypotheses.resize(reader.get<uint32_t>());
  for (Hypothesis& hypothesis : hypotheses) {
    hypothesis.log_probability = reader.get<double>();
    hypothesis.score = reader.get<double>();
    hypothesis.tokens.resize(reader.get<uint32_t>());
    for (int32_t& token : hypothesis.tokens) token = reader.get<int32_t>();
  }
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
  const std::vector<Chunk> chunks =
      cut_into_chunks(rows, {.rows = search.options().batch_rows,
                             .sentences = search.options().batch_sentences,
                             .pieces = pieces_for(search.device(), communicator.size())});
  const std::vector<int> ranks = deal_by_cost(chunks, communicator.size());
  HypothesisWriter mine;
  uint8_t abandoned = 0;
  for (size_t c = 0; c < chunks.size(); ++c) {
    if (ranks[c] != communicator.rank()) continue;
    if (abandon && abandon()) {
      abandoned = 1;
      break;
    }
    std::vector<SourceSentence> chunk;
    for (const size_t index : chunks[c].sentences) chunk.push_back(sources[index]);
    const Hypotheses found = search.translate(chunk);
    for (size_t i = 0; i < found.size(); ++i) put(mine, chunks[c].sentences[i], found[i]);
  }
  mine.put(abandoned);
  Hypotheses all(sources.size());
  for (std::string& bytes : communicator.all_gather(mine.bytes)) {
    VENTRIS_CHECK(!bytes.empty(), "a rank sent nothing");
    if (bytes.back() != 0) return std::nullopt;
    bytes.pop_back();
    for (HypothesisReader reader(bytes); !reader.at_end();) take(reader, all);
  }
  return all;
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
