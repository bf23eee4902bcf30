// SPDX-License-Identifier: Apache-2.0
#include "model/search/beam_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "model/search/beam_search_sentence.h"
#include "model/search/incremental_decoder.h"
#include "tests/support/tiny_model.h"

namespace ventris {
namespace {

using testing::PackedBatch;
using testing::TinyModel;
using Sources = std::vector<std::vector<int32_t>>;

Sources some_sources() {
  const auto pairs =
      testing::random_sentences({{3, 0}, {7, 0}, {1, 0}, {10, 0}, {3, 0}, {5, 0}, {2, 0}}, 19, 5);
  Sources sources;
  for (const auto& pair : pairs) sources.push_back(pair.source);
  return sources;
}

std::vector<std::vector<Hypothesis>> translate(TinyModel& tiny, const BeamSearchOptions& options,
                                               const Sources& sources) {
  BeamSearch search(tiny.context(), tiny.config(), tiny.store(), tiny.ids(), options);
  return search.translate(sources);
}

/// log p(next token | source, tokens) from the whole decoder, without any cache.
std::vector<double> next_token(TinyModel& tiny, const std::vector<int32_t>& source,
                               const std::vector<int32_t>& tokens) {
  const PackedBatch batch({{source, tokens}});
  const std::vector<double> logits = tiny.logits(batch);
  const auto vocab = static_cast<size_t>(tiny.config().vocab_size);
  const size_t first = tokens.size() * static_cast<size_t>(tiny.config().padded_vocab());
  std::vector<double> values(logits.begin() + static_cast<std::ptrdiff_t>(first),
                             logits.begin() + static_cast<std::ptrdiff_t>(first + vocab));
  double sum = 0.0;
  for (double v : values) sum += std::exp(v);
  for (double& v : values) v -= std::log(sum);
  return values;
}

/// Beam search as in the definition: always to the greatest length, one hypothesis at a time.
std::vector<Hypothesis> reference(TinyModel& tiny, const BeamSearchOptions& options,
                                  const std::vector<int32_t>& source) {
  const auto penalized = [&](double log_probability, size_t length) {
    return log_probability / std::pow((5.0 + static_cast<double>(length)) / 6.0, options.length_penalty);
  };
  const size_t max_tokens = std::min(source.size() + static_cast<size_t>(options.max_extra_length),
                                     static_cast<size_t>(tiny.config().max_positions - 1));
  std::vector<Hypothesis> live(1);
  std::vector<Hypothesis> finished;
  for (size_t length = 0; length <= max_tokens && !live.empty(); ++length) {
    std::vector<Hypothesis> continued;
    for (const Hypothesis& hypothesis : live) {
      const std::vector<double> values = next_token(tiny, source, hypothesis.tokens);
      for (int32_t token = 0; token < static_cast<int32_t>(values.size()); ++token) {
        if (token == options.unknown_id || token == options.begin_id) continue;
        if (length == max_tokens && token != options.end_id) continue;
        continued.push_back(hypothesis);
        continued.back().tokens.push_back(token);
        continued.back().log_probability += values[static_cast<size_t>(token)];
      }
    }
    std::sort(continued.begin(), continued.end(),
              [](const Hypothesis& x, const Hypothesis& y) { return x.log_probability > y.log_probability; });
    if (continued.size() > static_cast<size_t>(options.beam_size))
      continued.resize(static_cast<size_t>(options.beam_size));
    live.clear();
    for (Hypothesis& hypothesis : continued) {
      if (hypothesis.tokens.back() != options.end_id) {
        live.push_back(hypothesis);
        continue;
      }
      hypothesis.score = penalized(hypothesis.log_probability, hypothesis.tokens.size());
      hypothesis.tokens.pop_back();
      finished.push_back(hypothesis);
    }
  }
  std::sort(finished.begin(), finished.end(),
            [](const Hypothesis& x, const Hypothesis& y) { return x.score > y.score; });
  if (finished.size() > static_cast<size_t>(options.n_best))
    finished.resize(static_cast<size_t>(options.n_best));
  return finished;
}

void expect_same(const std::vector<Hypothesis>& got, const std::vector<Hypothesis>& expected,
                 double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].tokens, expected[i].tokens) << "hypothesis " << i;
    EXPECT_NEAR(got[i].score, expected[i].score, tolerance);
    EXPECT_NEAR(got[i].log_probability, expected[i].log_probability, tolerance);
  }
}

TEST(BeamSearch, EqualsASearchThatRecomputesTheWholeDecoder) {
  const Sources sources = some_sources();
  const auto check = [&](const TransformerConfig& config) {
    TinyModel tiny(config, DType::kF32, 1, KeptActivations::kNone);
    for (int beam : {1, 2, 4}) {
      const BeamSearchOptions options{.beam_size = beam, .max_extra_length = 4, .n_best = beam};
      const auto results = translate(tiny, options, sources);
      ASSERT_EQ(results.size(), sources.size());
      for (size_t s = 0; s < sources.size(); ++s) {
        SCOPED_TRACE(::testing::Message()
                     << "sentence " << s << " beam " << beam << " pre-norm " << config.pre_norm);
        expect_same(results[s], reference(tiny, options, sources[s]), 1e-4);
      }
    }
  };
  for (bool pre_norm : {false, true}) {
    for (bool learned : {false, true}) check(testing::tiny_config(pre_norm, learned));
    check(testing::marian_config(pre_norm));
  }
}

TEST(BeamSearch, EqualsTheReferenceInF64ForAnyLengthPenalty) {
  const Sources sources = some_sources();
  TinyModel tiny(testing::tiny_config(false), DType::kF64, 1, KeptActivations::kNone);
  for (float alpha : {-1.0F, 0.0F, 0.6F, 2.0F}) {
    for (int n_best : {1, 3}) {
      const BeamSearchOptions options{
          .beam_size = 3, .length_penalty = alpha, .max_extra_length = 6, .n_best = n_best};
      const auto results = translate(tiny, options, sources);
      for (size_t s = 0; s < sources.size(); ++s) {
        SCOPED_TRACE(::testing::Message() << "sentence " << s << " alpha " << alpha);
        expect_same(results[s], reference(tiny, options, sources[s]), 1e-5);
      }
    }
  }
}

TEST(BeamSearch, GivesOneEmptyHypothesisForAnEmptySource) {
  TinyModel tiny(testing::tiny_config(false), DType::kF32, 1, KeptActivations::kNone);
  const auto results = translate(tiny, {.max_extra_length = 3, .n_best = 2}, {{}, {5, 6}, {}});
  for (size_t s : {0, 2}) {
    ASSERT_EQ(results[s].size(), 1U);
    EXPECT_TRUE(results[s][0].tokens.empty());
  }
  EXPECT_EQ(results[1].size(), 2U);
  EXPECT_TRUE(translate(tiny, {}, {}).empty());
}

TEST(BeamSearch, StaysWithinThePositionsOfTheModel) {
  TinyModel tiny(testing::tiny_config(false), DType::kF32, 1, KeptActivations::kNone);
  const Sources sources = {std::vector<int32_t>(15, 4)};
  const BeamSearchOptions options{.beam_size = 2, .max_extra_length = 50};
  EXPECT_LE(translate(tiny, options, sources)[0][0].tokens.size(), 15U);
  EXPECT_THROW(translate(tiny, options, {std::vector<int32_t>(16, 4)}), Error);
}

TEST(BeamSearch, RefusesOptionsOutOfRange) {
  TinyModel tiny(testing::tiny_config(false), DType::kF32, 1, KeptActivations::kNone);
  EXPECT_THROW(translate(tiny, {.beam_size = 0}, {}), Error);
  EXPECT_THROW(translate(tiny, {.beam_size = 1025}, {}), Error);
  EXPECT_THROW(translate(tiny, {.beam_size = 2, .n_best = 3}, {}), Error);
  EXPECT_THROW(translate(tiny, {.max_extra_length = -1}, {}), Error);
  EXPECT_THROW(translate(tiny, {.min_length = -1}, {}), Error);
  EXPECT_THROW(translate(tiny, {.repetition_penalty = 0.0F}, {}), Error);
  EXPECT_THROW(translate(tiny, {.sampling = {.temperature = 0.0F}}, {}), Error);
  EXPECT_THROW(translate(tiny, {.sampling = {.top_p = 0.0F}}, {}), Error);
}

TEST(BeamSearchSentence, KeepsFinishedHypothesesAndStopsWhenNothingCanImprove) {
  const BeamSearchOptions options{.beam_size = 2, .length_penalty = 0.0F, .n_best = 1};
  BeamSearchSentence sentence(options, {}, 10);
  EXPECT_EQ(sentence.last_token(0), options.begin_id);
  // The third candidate falls out of the beam; nothing is finished yet.
  EXPECT_EQ(sentence.advance({{0, 7, -3.0}, {0, 8, -1.0}, {0, 9, -2.0}}), (std::vector<int>{0, 0}));
  EXPECT_EQ(sentence.last_token(0), 8);
  EXPECT_EQ(sentence.last_token(1), 9);
  // One ends with -1.5, but the other, at -1.4, may still win.
  EXPECT_EQ(sentence.advance({{0, options.end_id, -1.5}, {0, 5, -4.0}, {1, 6, -1.4}}), (std::vector<int>{1}));
  EXPECT_FALSE(sentence.done());
  // Now it cannot.
  EXPECT_TRUE(sentence.advance({{0, 5, -1.6}, {0, 6, -1.7}}).empty());
  EXPECT_TRUE(sentence.done());
  ASSERT_EQ(sentence.result().size(), 1U);
  EXPECT_EQ(sentence.result()[0].tokens, std::vector<int32_t>{8});
  EXPECT_EQ(sentence.result()[0].log_probability, -1.5);
}

TEST(IncrementalDecoder, EqualsTheWholeDecoderAfterManyStepsThatMixAndDropHypotheses) {
  TransformerConfig config = testing::tiny_config(false);
  config.max_positions = 60;
  TinyModel tiny(config, DType::kF32, 1, KeptActivations::kNone);
  const Sources sources = {{4, 5, 6}, {7, 8, 9, 10, 11}};
  const PackedBatch batch({{sources[0], {}}, {sources[1], {}}});
  IncrementalDecoder decoder(tiny.context(), config, tiny.store(), tiny.ids());
  decoder.begin(tiny.model().encode(tiny.place(batch)), batch.source_offsets(), 6);

  struct Followed {
    size_t sentence;
    std::vector<int32_t> tokens;
  };
  std::vector<Followed> followed = {{0, {}}, {1, {}}};
  std::vector<int32_t> parents = {0, 1};
  std::vector<int32_t> tokens = {1, 1};
  std::mt19937 generator(3);
  for (int step = 0; step < 50; ++step) {
    decoder.step(parents, tokens);
    for (size_t i = 0; i < followed.size() && step % 7 == 0; ++i) {
      const std::vector<double> expected =
          next_token(tiny, sources[followed[i].sentence], followed[i].tokens);
      const ConstTensor logits = decoder.logits(static_cast<int64_t>(i), 1);
      double sum = 0.0;
      for (int64_t w = 0; w < config.vocab_size; ++w) sum += std::exp(logits.as<float>()[w]);
      for (int64_t w = 0; w < config.vocab_size; ++w) {
        ASSERT_NEAR(logits.as<float>()[w] - std::log(sum), expected[static_cast<size_t>(w)], 1e-4)
            << "step " << step;
      }
    }
    const size_t next = 1 + generator() % 6;
    std::vector<Followed> continued;
    parents.clear();
    tokens.clear();
    for (size_t i = 0; i < next; ++i) {
      parents.push_back(static_cast<int32_t>(generator() % followed.size()));
      tokens.push_back(static_cast<int32_t>(3 + generator() % 16));
      continued.push_back(followed[static_cast<size_t>(parents.back())]);
      continued.back().tokens.push_back(tokens.back());
    }
    followed = continued;
  }
  EXPECT_EQ(decoder.position(), 50);
}

}  // namespace
}  // namespace ventris
