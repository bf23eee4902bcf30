// SPDX-License-Identifier: Apache-2.0
#include "trainer/inference/scoring.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "backend/error.h"
#include "comm/communicator.h"
#include "model/search/target_scores.h"
#include "trainer/files/marks.h"
#include "trainer/inference/work_sharing.h"

namespace ventris {
namespace {

/// Distributes the scores of every rank's chunks to all ranks.
void exchange(Communicator& communicator, const std::vector<Chunk>& chunks, const std::vector<int>& ranks,
              std::vector<ScoredPair>& pairs) {
  std::string mine;
  const auto for_chunks_of = [&](int rank, const auto& visit) {
    for (size_t c = 0; c < chunks.size(); ++c) {
      for (size_t i = 0; ranks[c] == rank && i < chunks[c].sentences.size(); ++i) {
        visit(pairs[chunks[c].sentences[i]].log_probabilities);
      }
    }
  };
  for_chunks_of(communicator.rank(), [&](const std::vector<float>& values) {
    mine.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  });
  const std::vector<std::string> all = communicator.all_gather(mine);
  for (int rank = 0; rank < communicator.size(); ++rank) {
    const std::string& bytes = all[static_cast<size_t>(rank)];
    size_t at = 0;
    for_chunks_of(rank, [&](std::vector<float>& values) {
      const size_t size = values.size() * sizeof(float);
      VENTRIS_CHECK(at + size <= bytes.size(), "{} bytes of scores of rank {} end early", bytes.size(), rank);
      std::memcpy(values.data(), bytes.data() + at, size);
      at += size;
    });
  }
}

}  // namespace

double ScoredPair::log_probability() const {
  return std::accumulate(log_probabilities.begin(), log_probabilities.end(), 0.0);
}

std::vector<ScoredPair> score_text(Context& context, Communicator& communicator, const ModelSet& models,
                                   const std::vector<std::string>& sources,
                                   const std::vector<std::string>& targets, int64_t batch_rows,
                                   int64_t batch_sentences) {
  VENTRIS_CHECK(sources.size() == targets.size(), "{} sources and {} targets", sources.size(),
                targets.size());
  const data::TokenizerPair& tokenizers = models.tokenizers();
  std::vector<ScoredPair> scored(sources.size());
  std::vector<SentencePair> pairs(sources.size());
  std::vector<int64_t> rows;
  const auto encode = [&](const data::Tokenizer& tokenizer, const std::string& text,
                          std::vector<int32_t>& tokens) {
    tokenizer.encode(text, tokens);
    const size_t all = tokens.size();
    tokens.resize(std::min(all, models.longest_sentence()));
    return all;
  };
  for (size_t i = 0; i < pairs.size(); ++i) {
    scored[i].source_tokens = encode(tokenizers.source(), sources[i], pairs[i].source);
    scored[i].target_tokens = encode(tokenizers.target(), targets[i], pairs[i].target);
    scored[i].target = pairs[i].target;
    scored[i].log_probabilities.resize(pairs[i].target.size() + 1);
    rows.push_back(static_cast<int64_t>(std::max(pairs[i].source.size(), pairs[i].target.size())) + 1);
  }
  if (batch_rows == 0) batch_rows = rows_that_suit(context.device());
  TargetScores scores(context, models.search_models(),
                      {.batch_rows = batch_rows, .marks = marks_of(tokenizers)});
  const std::vector<Chunk> chunks =
      cut_into_chunks(rows, {.rows = batch_rows,
                             .sentences = batch_sentences,
                             .pieces = pieces_for(context.device(), communicator.size())});
  const std::vector<int> ranks = deal_by_cost(chunks, communicator.size());
  for (size_t c = 0; c < chunks.size(); ++c) {
    if (ranks[c] != communicator.rank()) continue;
    std::vector<SentencePair> chunk;
    for (const size_t index : chunks[c].sentences) chunk.push_back(std::move(pairs[index]));
    const std::vector<std::vector<float>> found = scores.score(chunk);
    for (size_t i = 0; i < found.size(); ++i) scored[chunks[c].sentences[i]].log_probabilities = found[i];
  }
  exchange(communicator, chunks, ranks, scored);
  return scored;
}

}  // namespace ventris
