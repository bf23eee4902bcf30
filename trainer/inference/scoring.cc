// SPDX-License-Identifier: Apache-2.0
#include "trainer/inference/scoring.h"

#include <algorithm>
#include <numeric>

#include "backend/device/error.h"
#include "comm/communicator.h"
#include "model/search/target_scores.h"
#include "trainer/checkpoint/marks.h"
#include "trainer/inference/work_sharing.h"

namespace ventris {
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
    rows.push_back(static_cast<int64_t>(std::max(pairs[i].source.size(), pairs[i].target.size())) + 1);
  }
  if (batch_rows == 0) batch_rows = rows_that_suit(context.device());
  TargetScores scores(context, models.search_models(),
                      {.batch_rows = batch_rows, .marks = marks_of(tokenizers)});
  const ChunkLimits limits = {.rows = batch_rows,
                              .sentences = batch_sentences,
                              .pieces = pieces_for(context.device(), communicator.size())};
  std::vector<std::vector<double>> mine(pairs.size());
  for (const Chunk& chunk : chunks_of_this_rank(communicator, rows, limits)) {
    std::vector<SentencePair> of_chunk;
    for (const size_t index : chunk.sentences) of_chunk.push_back(std::move(pairs[index]));
    const std::vector<std::vector<float>> found = scores.score(of_chunk);
    for (size_t i = 0; i < found.size(); ++i)
      mine[chunk.sentences[i]].assign(found[i].begin(), found[i].end());
  }
  const std::vector<std::vector<double>> all = gather_numbers(communicator, mine);
  for (size_t i = 0; i < all.size(); ++i)
    scored[i].log_probabilities.assign(all[i].begin(), all[i].end());  // f32 before, too
  return scored;
}

}  // namespace ventris
