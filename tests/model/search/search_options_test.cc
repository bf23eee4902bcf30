// SPDX-License-Identifier: Apache-2.0
// Search with constraints, samples and ensembles, and scores of given targets: against all outputs that there
// are, one by one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <vector>

#include "model/search/beam_search.h"
#include "model/search/target_scores.h"
#include "tests/support/tiny_model.h"

namespace ventris {
namespace {

using testing::kTinyMarks;
using testing::PackedBatch;
using testing::TinyModel;
using TokenList = std::vector<int32_t>;

constexpr int kMaxLength = 3;

/// Three tokens can be produced: 3, 4 and 5.
TransformerConfig few_tokens(bool pre_norm = false) {
  TransformerConfig config = testing::tiny_config(pre_norm);
  config.vocab_size = 6;
  return config;
}

/// log p(token | source, the tokens before) for each token of the vocabulary at each place of the output and
/// after it, from the whole decoder; a mean of probabilities for several models.
std::vector<std::vector<double>> token_table(const std::vector<TinyModel*>& models, const TokenList& source,
                                             const TokenList& target) {
  std::vector<std::vector<double>> mean;
  for (TinyModel* tiny : models) {
    const std::vector<double> logits = tiny->logits(PackedBatch({{source, target}}));
    const auto columns = static_cast<size_t>(tiny->config().padded_vocab());
    const auto vocab = static_cast<size_t>(tiny->config().vocab_size);
    mean.resize(target.size() + 1, std::vector<double>(vocab, 0.0));
    for (size_t place = 0; place <= target.size(); ++place) {
      double sum = 0.0;
      for (size_t w = 0; w < vocab; ++w) sum += std::exp(logits[place * columns + w]);
      for (size_t w = 0; w < vocab; ++w) {
        mean[place][w] += std::exp(logits[place * columns + w]) / sum / static_cast<double>(models.size());
      }
    }
  }
  for (auto& row : mean) {
    for (double& value : row) value = std::log(value);
  }
  return mean;
}

/// Of the tokens from `begin` on and the end mark.
double log_probability(const std::vector<TinyModel*>& models, const TokenList& source,
                       const TokenList& target, size_t begin) {
  const auto table = token_table(models, source, target);
  double sum = table.back()[2];
  for (size_t i = begin; i < target.size(); ++i) sum += table[i][static_cast<size_t>(target[i])];
  return sum;
}

/// The best outputs of at most kMaxLength tokens that `allowed` lets through, by the tokens after the prefix.
std::vector<Hypothesis> best_of_all(const std::vector<TinyModel*>& models, const TokenList& source,
                                    const BeamSearchOptions& options, const TokenList& prefix,
                                    const std::function<bool(const TokenList&)>& allowed) {
  std::vector<TokenList> outputs = {{}};
  for (size_t i = 0; i < outputs.size(); ++i) {
    for (int32_t token = 3; token < 6 && outputs[i].size() < kMaxLength; ++token) {
      TokenList longer = outputs[i];
      longer.push_back(token);
      outputs.push_back(longer);
    }
  }
  std::vector<Hypothesis> found;
  for (const TokenList& tokens : outputs) {
    if (!allowed(tokens)) continue;
    Hypothesis hypothesis{tokens, log_probability(models, source, tokens, prefix.size()), 0.0};
    const auto length = static_cast<double>(tokens.size() - prefix.size());
    hypothesis.score = hypothesis.log_probability /
                       std::pow((6.0 + length) / 6.0, static_cast<double>(options.length_penalty));
    found.push_back(hypothesis);
  }
  std::sort(found.begin(), found.end(),
            [](const Hypothesis& x, const Hypothesis& y) { return x.score > y.score; });
  found.resize(std::min(found.size(), static_cast<size_t>(options.n_best)));
  return found;
}

void expect_best_of_all(const std::vector<TinyModel*>& models, BeamSearchOptions options,
                        const TokenList& prefix, const std::function<bool(const TokenList&)>& allowed) {
  options.beam_size = 64;  // more than there are outputs
  options.max_length = kMaxLength;
  options.n_best = 8;
  std::vector<SearchModel> views;
  for (TinyModel* tiny : models) views.push_back({tiny->config(), tiny->store(), tiny->ids()});
  BeamSearch search(models[0]->context(), views, options);
  const std::vector<SourceSentence> sources = {{{3, 4}, prefix}, {{5}, prefix}, {{4, 4, 3, 5}, prefix}};
  const auto results = search.translate(sources);
  for (size_t s = 0; s < sources.size(); ++s) {
    const auto expected = best_of_all(models, sources[s].tokens, options, prefix, allowed);
    ASSERT_EQ(results[s].size(), expected.size()) << "sentence " << s;
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(results[s][i].tokens, expected[i].tokens) << "sentence " << s << ", hypothesis " << i;
      EXPECT_NEAR(results[s][i].log_probability, expected[i].log_probability, 1e-5);
      EXPECT_NEAR(results[s][i].score, expected[i].score, 1e-5);
    }
  }
}

bool any(const TokenList&) {
  return true;
}

/// Whether a sequence of n tokens comes twice.
bool repeats(const TokenList& tokens, size_t n) {
  std::set<TokenList> seen;
  for (size_t i = 0; i + n <= tokens.size(); ++i) {
    const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(i);
    if (!seen.insert(TokenList(begin, begin + static_cast<std::ptrdiff_t>(n))).second) return true;
  }
  return false;
}

TEST(SearchOptions, ABeamOfAllHypothesesFindsTheBestOfAllOutputs) {
  TinyModel tiny(few_tokens(), DType::kF64, 1, KeptActivations::kNone);
  for (const float alpha : {0.0F, 0.6F, 2.0F}) {
    expect_best_of_all({&tiny}, {.length_penalty = alpha}, {}, any);
  }
}

TEST(SearchOptions, OutputsHaveTheMinimumLength) {
  TinyModel tiny(few_tokens(), DType::kF64, 1, KeptActivations::kNone);
  for (const int min : {1, 2, 3}) {
    expect_best_of_all({&tiny}, {.min_length = min}, {},
                       [&](const TokenList& tokens) { return static_cast<int>(tokens.size()) >= min; });
  }
  // The limit from above wins.
  expect_best_of_all({&tiny}, {.min_length = 9}, {},
                     [&](const TokenList& tokens) { return tokens.size() == 3; });
}

TEST(SearchOptions, NoSequenceOfTokensComesTwice) {
  TinyModel tiny(few_tokens(), DType::kF64, 1, KeptActivations::kNone);
  for (const int n : {1, 2}) {
    expect_best_of_all({&tiny}, {.no_repeat_ngram = n}, {},
                       [&](const TokenList& tokens) { return !repeats(tokens, static_cast<size_t>(n)); });
  }
}

TEST(SearchOptions, OutputsEndWhenNoTokenIsLeft) {
  TinyModel tiny(few_tokens(), DType::kF32, 1, KeptActivations::kNone);
  BeamSearch search(tiny.context(), tiny.config(), tiny.store(), tiny.ids(),
                    {.beam_size = 3, .max_extra_length = 9, .min_length = 8, .no_repeat_ngram = 1});
  const TokenList tokens = search.translate(std::vector<TokenList>{{3, 4}}).at(0).at(0).tokens;
  EXPECT_EQ(std::set<int32_t>(tokens.begin(), tokens.end()), (std::set<int32_t>{3, 4, 5}));
  EXPECT_EQ(tokens.size(), 3U);
}

TEST(SearchOptions, OutputsBeginWithThePrefix) {
  TinyModel tiny(few_tokens(), DType::kF64, 1, KeptActivations::kNone);
  for (const TokenList& prefix : {TokenList{4}, TokenList{5, 5}, TokenList{3, 4, 5}}) {
    for (const float alpha : {0.0F, 0.6F, 2.0F}) {
      expect_best_of_all({&tiny}, {.length_penalty = alpha}, prefix, [&](const TokenList& tokens) {
        return tokens.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), tokens.begin());
      });
    }
  }
}

TEST(SearchOptions, APrefixMayHoldTheUnknownTokenAndBeLongerThanTheLimit) {
  TinyModel tiny(few_tokens(), DType::kF32, 1, KeptActivations::kNone);
  BeamSearch search(tiny.context(), tiny.config(), tiny.store(), tiny.ids(), {.max_length = 2, .n_best = 2});
  const std::vector<SourceSentence> sources = {{{3, 4}, {0, 3, 4, 5}}, {{}, {3}}};
  const auto found = search.translate(sources);
  ASSERT_EQ(found[0].size(), 1U);
  EXPECT_EQ(found[0][0].tokens, (TokenList{0, 3, 4, 5}));
  EXPECT_NEAR(found[0][0].log_probability, log_probability({&tiny}, {3, 4}, {0, 3, 4, 5}, 4), 1e-4);
  EXPECT_TRUE(found[1].at(0).tokens.empty());
}

TEST(SearchOptions, RepetitionIsPenalizedAtEveryStep) {
  TinyModel tiny(few_tokens(), DType::kF64, 1, KeptActivations::kNone);
  for (const float penalty : {0.5F, 1.7F}) {
    BeamSearch search(tiny.context(), tiny.config(), tiny.store(), tiny.ids(),
                      {.beam_size = 1, .max_extra_length = 5, .repetition_penalty = penalty});
    const TokenList source = {5, 3, 3};
    TokenList tokens;
    double sum = 0.0;
    while (true) {
      const std::vector<double> all = tiny.logits(PackedBatch({{source, tokens}}));
      const auto columns = static_cast<size_t>(tiny.config().padded_vocab());
      std::vector<double> logits(all.end() - static_cast<std::ptrdiff_t>(columns), all.end());
      logits.resize(6);
      for (const int32_t token : std::set<int32_t>(tokens.begin(), tokens.end())) {
        double& logit = logits[static_cast<size_t>(token)];
        logit = logit > 0 ? logit / static_cast<double>(penalty) : logit * static_cast<double>(penalty);
      }
      double normal = 0.0;
      for (const double logit : logits) normal += std::exp(logit);
      auto best = static_cast<int32_t>(std::max_element(logits.begin() + 2, logits.end()) - logits.begin());
      if (tokens.size() == 8) best = 2;
      sum += logits[static_cast<size_t>(best)] - std::log(normal);
      if (best == 2) break;
      tokens.push_back(best);
    }
    const Hypothesis found = search.translate(std::vector<TokenList>{source}).at(0).at(0);
    EXPECT_EQ(found.tokens, tokens);
    EXPECT_NEAR(found.log_probability, sum, 1e-5);
  }
}

TEST(Ensemble, OfTwoModelsSearchesWithTheMeanOfTheirProbabilities) {
  TinyModel one(few_tokens(false), DType::kF64, 1, KeptActivations::kNone);
  TinyModel other(few_tokens(true), DType::kF64, 1, KeptActivations::kNone);
  expect_best_of_all({&one, &other}, {}, {}, any);
  expect_best_of_all({&one, &other, &one}, {.no_repeat_ngram = 1}, {4}, [](const TokenList& tokens) {
    return !tokens.empty() && tokens[0] == 4 && !repeats(tokens, 1);
  });
}

TEST(Ensemble, OfDifferentVocabulariesOrDTypesIsRefused) {
  TinyModel one(few_tokens(), DType::kF32, 1, KeptActivations::kNone);
  TinyModel large(testing::tiny_config(false), DType::kF32, 1, KeptActivations::kNone);
  TinyModel rough(few_tokens(), DType::kBF16, 1, KeptActivations::kNone);
  for (TinyModel* other : {&large, &rough}) {
    const std::vector<SearchModel> models = {{one.config(), one.store(), one.ids()},
                                             {other->config(), other->store(), other->ids()}};
    EXPECT_THROW(BeamSearch(one.context(), models, {}), Error);
    EXPECT_THROW(TargetScores(one.context(), models, {}), Error);
  }
  EXPECT_THROW(BeamSearch(one.context(), std::span<const SearchModel>(), {}), Error);
}

std::vector<SourceSentence> many_sources(size_t count) {
  std::vector<SourceSentence> sources;
  for (size_t i = 0; i < count; ++i) {
    sources.push_back({.tokens = TokenList(1 + i % 3, static_cast<int32_t>(3 + i % 16)), .number = i});
  }
  return sources;
}

TEST(Sampling, DependsOnTheNumberOfTheSentenceAloneNotOnTheBatch) {
  const BeamSearchOptions options{
      .max_extra_length = 6, .n_best = 3, .sample = true, .sampling = {.seed = 5}};
  std::vector<SourceSentence> sources = many_sources(20);
  sources[4].prefix = {7, 8};
  TinyModel one(testing::tiny_config(false), DType::kF32, 1, KeptActivations::kNone);
  TinyModel three(testing::tiny_config(false), DType::kF32, 3, KeptActivations::kNone);
  const auto run = [&](TinyModel& tiny, BeamSearchOptions with, std::vector<SourceSentence> some) {
    return BeamSearch(tiny.context(), tiny.config(), tiny.store(), tiny.ids(), with).translate(some);
  };
  const auto tokens_of = [](const std::vector<Hypothesis>& drawn) {
    std::vector<TokenList> tokens;
    for (const Hypothesis& hypothesis : drawn) tokens.push_back(hypothesis.tokens);
    return tokens;
  };
  const auto expected = run(one, options, sources);
  BeamSearchOptions small = options;
  small.batch_rows = 5;
  const auto in_parts = run(three, small, {sources.rbegin(), sources.rend()});
  std::set<TokenList> different;
  for (size_t i = 0; i < sources.size(); ++i) {
    EXPECT_EQ(tokens_of(in_parts[sources.size() - 1 - i]), tokens_of(expected[i]));
    for (const TokenList& tokens : tokens_of(expected[i])) different.insert(tokens);
  }
  EXPECT_GT(different.size(), 40U);
  for (const TokenList& tokens : tokens_of(expected[4]))
    EXPECT_EQ(TokenList(tokens.begin(), tokens.begin() + 2), (TokenList{7, 8}));
  BeamSearchOptions other = options;
  other.sampling.seed = 6;
  EXPECT_NE(tokens_of(run(one, other, sources)[0]), tokens_of(expected[0]));
}

TEST(Sampling, OfTheMostProbableTokenAloneIsGreedySearch) {
  TinyModel tiny(testing::tiny_config(false), DType::kF32, 1, KeptActivations::kNone);
  const auto run = [&](const BeamSearchOptions& options) {
    return BeamSearch(tiny.context(), tiny.config(), tiny.store(), tiny.ids(), options)
        .translate(many_sources(9));
  };
  const auto greedy = run({.beam_size = 1, .max_extra_length = 5});
  const auto drawn = run({.max_extra_length = 5, .sample = true, .sampling = {.top_k = 1}});
  for (size_t i = 0; i < greedy.size(); ++i) {
    EXPECT_EQ(drawn[i].at(0).tokens, greedy[i].at(0).tokens);
    EXPECT_NEAR(drawn[i].at(0).log_probability, greedy[i].at(0).log_probability, 1e-4);
  }
}

TEST(TargetScores, AreThoseOfTheSearchForItsOutputsInAnyBatch) {
  for (const bool several : {false, true}) {
    TinyModel one(testing::tiny_config(false), DType::kF32, 2, KeptActivations::kNone);
    TinyModel other(testing::tiny_config(true), DType::kF32, 1, KeptActivations::kNone);
    std::vector<SearchModel> models = {{one.config(), one.store(), one.ids()}};
    if (several) models.push_back({other.config(), other.store(), other.ids()});
    const std::vector<SourceSentence> sources = many_sources(12);
    BeamSearch search(one.context(), models, {.max_extra_length = 7, .n_best = 4});
    std::vector<SentencePair> pairs;
    std::vector<double> expected;
    const auto found = search.translate(sources);
    for (size_t s = 0; s < sources.size(); ++s) {
      for (const Hypothesis& hypothesis : found[s]) {
        pairs.push_back({sources[s].tokens, hypothesis.tokens});
        expected.push_back(hypothesis.log_probability);
      }
    }
    const auto scores = TargetScores(one.context(), models, {.marks = kTinyMarks}).score(pairs);
    const auto alone =
        TargetScores(one.context(), models, {.batch_rows = 1, .marks = kTinyMarks}).score(pairs);
    for (size_t p = 0; p < pairs.size(); ++p) {
      ASSERT_EQ(scores[p].size(), pairs[p].target.size() + 1);
      double sum = 0.0;
      for (const float value : scores[p]) sum += static_cast<double>(value);
      EXPECT_NEAR(sum, expected[p], 1e-4);
      EXPECT_EQ(scores[p], alone[p]) << "pair " << p;
    }
  }
}

TEST(TargetScores, TakeEmptySentencesAndRefuseThoseThatAreTooLong) {
  TinyModel tiny(few_tokens(), DType::kF32, 1, KeptActivations::kNone);
  const SearchModel model{tiny.config(), tiny.store(), tiny.ids()};
  TargetScores scores(tiny.context(), std::span(&model, 1), {.marks = kTinyMarks});
  const std::vector<SentencePair> pairs = {{{}, {}}, {{3}, {}}, {{}, {4, 5}}};
  const auto found = scores.score(pairs);
  EXPECT_NEAR(found[0].at(0), token_table({&tiny}, {}, {})[0][2], 1e-5);
  EXPECT_EQ(found[2].size(), 3U);
  EXPECT_TRUE(scores.score({}).empty());
  const std::vector<SentencePair> too_long = {{{3}, TokenList(16, 4)}};
  EXPECT_THROW(scores.score(too_long), Error);
}

}  // namespace
}  // namespace ventris
