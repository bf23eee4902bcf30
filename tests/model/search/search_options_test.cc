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

using testing::PackedBatch;
using testing::TinyModel;
using Words = std::vector<int32_t>;

constexpr int kMaxLength = 3;

/// Three tokens can be produced: 3, 4 and 5.
TransformerConfig few_words(bool pre_norm = false) {
  TransformerConfig config = testing::tiny_config(pre_norm);
  config.vocab_size = 6;
  return config;
}

/// log p(token | source, the tokens before) for each token of the vocabulary at each place of the output and
/// after it, from the whole decoder; a mean of probabilities for several models.
std::vector<std::vector<double>> word_table(const std::vector<TinyModel*>& models, const Words& source,
                                            const Words& target) {
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

double log_probability(const std::vector<TinyModel*>& models, const Words& source, const Words& target) {
  const auto table = word_table(models, source, target);
  double sum = table.back()[2];
  for (size_t i = 0; i < target.size(); ++i) sum += table[i][static_cast<size_t>(target[i])];
  return sum;
}

/// The best outputs of at most kMaxLength tokens that `allowed` lets through.
std::vector<Hypothesis> best_of_all(const std::vector<TinyModel*>& models, const Words& source,
                                    const BeamSearchOptions& options,
                                    const std::function<bool(const Words&)>& allowed) {
  std::vector<Words> outputs = {{}};
  for (size_t i = 0; i < outputs.size(); ++i) {
    for (int32_t word = 3; word < 6 && outputs[i].size() < kMaxLength; ++word) {
      Words longer = outputs[i];
      longer.push_back(word);
      outputs.push_back(longer);
    }
  }
  std::vector<Hypothesis> found;
  for (const Words& words : outputs) {
    if (!allowed(words)) continue;
    Hypothesis hypothesis{words, log_probability(models, source, words), 0.0};
    hypothesis.score = hypothesis.log_probability / std::pow((6.0 + static_cast<double>(words.size())) / 6.0,
                                                             static_cast<double>(options.length_penalty));
    found.push_back(hypothesis);
  }
  std::sort(found.begin(), found.end(),
            [](const Hypothesis& x, const Hypothesis& y) { return x.score > y.score; });
  found.resize(std::min(found.size(), static_cast<size_t>(options.n_best)));
  return found;
}

void expect_best_of_all(const std::vector<TinyModel*>& models, BeamSearchOptions options, const Words& prefix,
                        const std::function<bool(const Words&)>& allowed) {
  options.beam_size = 64;  // more than there are outputs
  options.max_length = kMaxLength;
  options.n_best = 8;
  std::vector<SearchModel> views;
  for (TinyModel* tiny : models) views.push_back({tiny->config(), tiny->store(), tiny->ids()});
  BeamSearch search(models[0]->context(), views, options);
  const std::vector<SourceSentence> sources = {{{3, 4}, prefix}, {{5}, prefix}, {{4, 4, 3, 5}, prefix}};
  const auto results = search.translate(sources);
  for (size_t s = 0; s < sources.size(); ++s) {
    const auto expected = best_of_all(models, sources[s].words, options, allowed);
    ASSERT_EQ(results[s].size(), expected.size()) << "sentence " << s;
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(results[s][i].words, expected[i].words) << "sentence " << s << ", hypothesis " << i;
      EXPECT_NEAR(results[s][i].log_probability, expected[i].log_probability, 1e-5);
      EXPECT_NEAR(results[s][i].score, expected[i].score, 1e-5);
    }
  }
}

bool any(const Words&) {
  return true;
}

/// Whether a sequence of n tokens comes twice.
bool repeats(const Words& words, size_t n) {
  std::set<Words> seen;
  for (size_t i = 0; i + n <= words.size(); ++i) {
    const auto begin = words.begin() + static_cast<std::ptrdiff_t>(i);
    if (!seen.insert(Words(begin, begin + static_cast<std::ptrdiff_t>(n))).second) return true;
  }
  return false;
}

TEST(SearchOptions, ABeamOfAllHypothesesFindsTheBestOfAllOutputs) {
  TinyModel tiny(few_words(), DType::kF64, 1, false);
  for (const float alpha : {0.0F, 0.6F, 2.0F}) {
    expect_best_of_all({&tiny}, {.length_penalty = alpha}, {}, any);
  }
}

TEST(SearchOptions, OutputsHaveTheMinimumLength) {
  TinyModel tiny(few_words(), DType::kF64, 1, false);
  for (const int least : {1, 2, 3}) {
    expect_best_of_all({&tiny}, {.min_length = least}, {},
                       [&](const Words& words) { return static_cast<int>(words.size()) >= least; });
  }
  // The limit from above wins.
  expect_best_of_all({&tiny}, {.min_length = 9}, {}, [&](const Words& words) { return words.size() == 3; });
}

TEST(SearchOptions, NoSequenceOfWordsComesTwice) {
  TinyModel tiny(few_words(), DType::kF64, 1, false);
  for (const int n : {1, 2}) {
    expect_best_of_all({&tiny}, {.no_repeat_ngram = n}, {},
                       [&](const Words& words) { return !repeats(words, static_cast<size_t>(n)); });
  }
}

TEST(SearchOptions, OutputsEndWhenNoWordIsLeft) {
  TinyModel tiny(few_words(), DType::kF32, 1, false);
  BeamSearch search(tiny.context(), tiny.config(), tiny.store(), tiny.ids(),
                    {.beam_size = 3, .max_extra_length = 9, .min_length = 8, .no_repeat_ngram = 1});
  const Words words = search.translate(std::vector<Words>{{3, 4}}).at(0).at(0).words;
  EXPECT_EQ(std::set<int32_t>(words.begin(), words.end()), (std::set<int32_t>{3, 4, 5}));
  EXPECT_EQ(words.size(), 3U);
}

TEST(SearchOptions, OutputsBeginWithThePrefix) {
  TinyModel tiny(few_words(), DType::kF64, 1, false);
  for (const Words& prefix : {Words{4}, Words{5, 5}, Words{3, 4, 5}}) {
    expect_best_of_all({&tiny}, {}, prefix, [&](const Words& words) {
      return words.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), words.begin());
    });
  }
}

TEST(SearchOptions, APrefixMayHoldTheUnknownWordAndBeLongerThanTheLimit) {
  TinyModel tiny(few_words(), DType::kF32, 1, false);
  BeamSearch search(tiny.context(), tiny.config(), tiny.store(), tiny.ids(), {.max_length = 2, .n_best = 2});
  const std::vector<SourceSentence> sources = {{{3, 4}, {0, 3, 4, 5}}, {{}, {3}}};
  const auto found = search.translate(sources);
  ASSERT_EQ(found[0].size(), 1U);
  EXPECT_EQ(found[0][0].words, (Words{0, 3, 4, 5}));
  EXPECT_NEAR(found[0][0].log_probability, log_probability({&tiny}, {3, 4}, {0, 3, 4, 5}), 1e-4);
  EXPECT_TRUE(found[1].at(0).words.empty());
}

TEST(SearchOptions, RepetitionIsPenalizedAtEveryStep) {
  TinyModel tiny(few_words(), DType::kF64, 1, false);
  for (const float penalty : {0.5F, 1.7F}) {
    BeamSearch search(tiny.context(), tiny.config(), tiny.store(), tiny.ids(),
                      {.beam_size = 1, .max_extra_length = 5, .repetition_penalty = penalty});
    const Words source = {5, 3, 3};
    Words words;
    double sum = 0.0;
    while (true) {
      const std::vector<double> all = tiny.logits(PackedBatch({{source, words}}));
      const auto columns = static_cast<size_t>(tiny.config().padded_vocab());
      std::vector<double> logits(all.end() - static_cast<std::ptrdiff_t>(columns), all.end());
      logits.resize(6);
      for (const int32_t word : std::set<int32_t>(words.begin(), words.end())) {
        double& logit = logits[static_cast<size_t>(word)];
        logit = logit > 0 ? logit / static_cast<double>(penalty) : logit * static_cast<double>(penalty);
      }
      double normal = 0.0;
      for (const double logit : logits) normal += std::exp(logit);
      auto best = static_cast<int32_t>(std::max_element(logits.begin() + 2, logits.end()) - logits.begin());
      if (words.size() == 8) best = 2;
      sum += logits[static_cast<size_t>(best)] - std::log(normal);
      if (best == 2) break;
      words.push_back(best);
    }
    const Hypothesis found = search.translate(std::vector<Words>{source}).at(0).at(0);
    EXPECT_EQ(found.words, words);
    EXPECT_NEAR(found.log_probability, sum, 1e-5);
  }
}

TEST(Ensemble, OfTwoModelsSearchesWithTheMeanOfTheirProbabilities) {
  TinyModel one(few_words(false), DType::kF64, 1, false);
  TinyModel other(few_words(true), DType::kF64, 1, false);
  expect_best_of_all({&one, &other}, {}, {}, any);
  expect_best_of_all({&one, &other, &one}, {.no_repeat_ngram = 1}, {4}, [](const Words& words) {
    return !words.empty() && words[0] == 4 && !repeats(words, 1);
  });
}

TEST(Ensemble, OfAModelWithItselfIsTheModel) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    TinyModel tiny(testing::tiny_config(false), dtype, 1, false);
    const SearchModel model{tiny.config(), tiny.store(), tiny.ids()};
    const std::vector<SearchModel> thrice(3, model);
    const BeamSearchOptions options{.max_extra_length = 5, .n_best = 3};
    const std::vector<Words> sources = {{5, 6, 7}, {9, 3}, {11, 12, 13, 14, 15}};
    const auto expected = BeamSearch(tiny.context(), std::span(&model, 1), options).translate(sources);
    const auto got = BeamSearch(tiny.context(), thrice, options).translate(sources);
    for (size_t s = 0; s < sources.size(); ++s) {
      for (size_t i = 0; i < expected[s].size(); ++i) {
        EXPECT_EQ(got[s].at(i).words, expected[s][i].words);
        EXPECT_NEAR(got[s][i].log_probability, expected[s][i].log_probability, 1e-5);
      }
    }
  }
}

TEST(Ensemble, OfDifferentVocabulariesOrDTypesIsRefused) {
  TinyModel one(few_words(), DType::kF32, 1, false);
  TinyModel large(testing::tiny_config(false), DType::kF32, 1, false);
  TinyModel rough(few_words(), DType::kBF16, 1, false);
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
    sources.push_back({.words = Words(1 + i % 3, static_cast<int32_t>(3 + i % 16)), .number = i});
  }
  return sources;
}

TEST(Sampling, DrawsFirstWordsAsOftenAsTheyAreProbable) {
  TinyModel tiny(few_words(), DType::kF32, 1, false);
  const std::vector<double> expected = word_table({&tiny}, {4, 5}, {})[0];
  BeamSearch search(tiny.context(), tiny.config(), tiny.store(), tiny.ids(),
                    {.max_length = 1, .n_best = 4, .sample = true});
  std::vector<SourceSentence> sources(1000, {.words = {4, 5}});
  for (size_t i = 0; i < sources.size(); ++i) sources[i].number = i;
  std::vector<double> counts(6, 0.0);
  for (const auto& drawn : search.translate(sources)) {
    ASSERT_EQ(drawn.size(), 4U);
    for (const Hypothesis& hypothesis : drawn) {
      ++counts[static_cast<size_t>(hypothesis.words.empty() ? 2 : hypothesis.words[0])];
    }
  }
  // Neither the begin mark nor the unknown token is drawn.
  double possible = 0.0;
  for (size_t w = 2; w < 6; ++w) possible += std::exp(expected[w]);
  double chi_square = 0.0;
  for (size_t w = 2; w < 6; ++w) {
    const double wanted = 4000.0 * std::exp(expected[w]) / possible;
    chi_square += (counts[w] - wanted) * (counts[w] - wanted) / wanted;
  }
  EXPECT_EQ(counts[0] + counts[1], 0.0);
  EXPECT_LT(chi_square, 21.1);  // exceeded once in 10,000 with three degrees of freedom
}

TEST(Sampling, DependsOnTheNumberOfTheSentenceAloneNotOnTheBatch) {
  const BeamSearchOptions options{
      .max_extra_length = 6, .n_best = 3, .sample = true, .sampling = {.seed = 5}};
  std::vector<SourceSentence> sources = many_sources(20);
  sources[4].prefix = {7, 8};
  TinyModel one(testing::tiny_config(false), DType::kF32, 1, false);
  TinyModel three(testing::tiny_config(false), DType::kF32, 3, false);
  const auto run = [&](TinyModel& tiny, BeamSearchOptions with, std::vector<SourceSentence> some) {
    return BeamSearch(tiny.context(), tiny.config(), tiny.store(), tiny.ids(), with).translate(some);
  };
  const auto words_of = [](const std::vector<Hypothesis>& drawn) {
    std::vector<Words> words;
    for (const Hypothesis& hypothesis : drawn) words.push_back(hypothesis.words);
    return words;
  };
  const auto expected = run(one, options, sources);
  BeamSearchOptions small = options;
  small.batch_rows = 5;
  const auto in_parts = run(three, small, {sources.rbegin(), sources.rend()});
  std::set<Words> different;
  for (size_t i = 0; i < sources.size(); ++i) {
    EXPECT_EQ(words_of(in_parts[sources.size() - 1 - i]), words_of(expected[i]));
    for (const Words& words : words_of(expected[i])) different.insert(words);
  }
  EXPECT_GT(different.size(), 40U);
  for (const Words& words : words_of(expected[4]))
    EXPECT_EQ(Words(words.begin(), words.begin() + 2), (Words{7, 8}));
  BeamSearchOptions other = options;
  other.sampling.seed = 6;
  EXPECT_NE(words_of(run(one, other, sources)[0]), words_of(expected[0]));
}

TEST(Sampling, OfTheMostProbableWordAloneIsGreedySearch) {
  TinyModel tiny(testing::tiny_config(false), DType::kF32, 1, false);
  const auto run = [&](const BeamSearchOptions& options) {
    return BeamSearch(tiny.context(), tiny.config(), tiny.store(), tiny.ids(), options)
        .translate(many_sources(9));
  };
  const auto greedy = run({.beam_size = 1, .max_extra_length = 5});
  const auto drawn = run({.max_extra_length = 5, .sample = true, .sampling = {.top_k = 1}});
  for (size_t i = 0; i < greedy.size(); ++i) {
    EXPECT_EQ(drawn[i].at(0).words, greedy[i].at(0).words);
    EXPECT_NEAR(drawn[i].at(0).log_probability, greedy[i].at(0).log_probability, 1e-4);
  }
}

TEST(TargetScores, AreThoseOfTheSearchForItsOutputsInAnyBatch) {
  for (const bool several : {false, true}) {
    TinyModel one(testing::tiny_config(false), DType::kF32, 2, false);
    TinyModel other(testing::tiny_config(true), DType::kF32, 1, false);
    std::vector<SearchModel> models = {{one.config(), one.store(), one.ids()}};
    if (several) models.push_back({other.config(), other.store(), other.ids()});
    const std::vector<SourceSentence> sources = many_sources(12);
    BeamSearch search(one.context(), models, {.max_extra_length = 7, .n_best = 4});
    std::vector<SentencePair> pairs;
    std::vector<double> expected;
    const auto found = search.translate(sources);
    for (size_t s = 0; s < sources.size(); ++s) {
      for (const Hypothesis& hypothesis : found[s]) {
        pairs.push_back({sources[s].words, hypothesis.words});
        expected.push_back(hypothesis.log_probability);
      }
    }
    const auto scores = TargetScores(one.context(), models, {}).score(pairs);
    const auto alone = TargetScores(one.context(), models, {.batch_rows = 1}).score(pairs);
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
  TinyModel tiny(few_words(), DType::kF32, 1, false);
  const SearchModel model{tiny.config(), tiny.store(), tiny.ids()};
  TargetScores scores(tiny.context(), std::span(&model, 1), {});
  const std::vector<SentencePair> pairs = {{{}, {}}, {{3}, {}}, {{}, {4, 5}}};
  const auto found = scores.score(pairs);
  EXPECT_NEAR(found[0].at(0), word_table({&tiny}, {}, {})[0][2], 1e-5);
  EXPECT_EQ(found[2].size(), 3U);
  EXPECT_TRUE(scores.score({}).empty());
  const std::vector<SentencePair> too_long = {{{3}, Words(16, 4)}};
  EXPECT_THROW(scores.score(too_long), Error);
}

}  // namespace
}  // namespace ventris
