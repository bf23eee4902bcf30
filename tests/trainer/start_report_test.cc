// SPDX-License-Identifier: Apache-2.0
#include "trainer/start_report.h"

#include <gtest/gtest.h>

#include "trainer/corpus_warnings.h"
#include "trainer/text.h"

namespace ventris {
namespace {

/// Sentences of two words each.
struct Side {
  explicit Side(std::vector<int32_t> words_in) : words(std::move(words_in)) {
    for (size_t i = 0; i <= words.size(); i += 2) offsets.push_back(static_cast<int64_t>(i));
  }
  data::SentenceArray array() const {
    return {words.data(), offsets.data(), static_cast<int64_t>(offsets.size()) - 1};
  }
  std::vector<int32_t> words;
  std::vector<int64_t> offsets;
};

constexpr int kVocabulary = 12;

std::vector<int32_t> repeated(const std::vector<int32_t>& words, int times) {
  std::vector<int32_t> result;
  for (int i = 0; i < times; ++i) result.insert(result.end(), words.begin(), words.end());
  return result;
}

TEST(CorpusWarnings, SwappedSidesAreKnownByTheirTokens) {
  const Side english(repeated({1, 2, 3, 4}, 20));
  const Side german(repeated({6, 7, 8, 9}, 20));
  const Side some_english({1, 3, 2, 5});
  const Side some_german({7, 6, 9, 10});
  const data::SentencePairs train{english.array(), german.array()};
  EXPECT_TRUE(sides_are_swapped(train, {some_german.array(), some_english.array()}, kVocabulary));
  EXPECT_FALSE(sides_are_swapped(train, {some_english.array(), some_german.array()}, kVocabulary));
  // One side alone does not tell: text that was not translated, for example.
  EXPECT_FALSE(sides_are_swapped(train, {some_german.array(), some_german.array()}, kVocabulary));
  EXPECT_FALSE(sides_are_swapped(train, {some_english.array(), some_english.array()}, kVocabulary));
  // Both sides of one kind, and no validation pairs.
  const data::SentencePairs alike{english.array(), english.array()};
  EXPECT_FALSE(sides_are_swapped(alike, {some_german.array(), some_english.array()}, kVocabulary));
  EXPECT_FALSE(sides_are_swapped(train, {}, kVocabulary));
}

TEST(CorpusWarnings, AnEpochHasTheStepsOfTheSideThatFillsABatchFirst) {
  const Side source(repeated({1, 2}, 30));  // 90 tokens with end marks
  const data::SentencePairs pairs{source.array(), source.array()};
  TrainOptions options;
  options.batch_source_tokens = 45;
  options.batch_target_tokens = 9;
  EXPECT_DOUBLE_EQ(steps_per_epoch(options, pairs), 10.0);
  options.batch_target_tokens = options.batch_source_tokens = 180;
  EXPECT_DOUBLE_EQ(steps_per_epoch(options, pairs), 0.5);
}

TEST(StartReport, NamesOptionsThatChanged) {
  TrainOptions before;
  EXPECT_EQ(changed_options(before, before), std::vector<std::string>());
  TrainOptions now = before;
  now.max_steps = 7;
  now.model.dropout = 0.25F;
  now.device = "cpu";
  now.profile = true;
  now.reduction = Reduction::kReproducible;
  now.model_dir = "elsewhere";
  now.resume = "never";
  before.freeze = {"encoder/*"};
  now.freeze = {"encoder/*", "embedding"};
  const std::vector<std::string> expected = {"--device from auto to cpu",
                                             "--dropout from 0.1 to 0.25",
                                             "--freeze from encoder/* to encoder/* embedding",
                                             "--max-steps from 100000 to 7",
                                             "--profile from false to true",
                                             "--reduction from fast to reproducible"};
  EXPECT_EQ(changed_options(before, now), expected);
}

TEST(Text, SetsThousandsApart) {
  EXPECT_EQ(thousands(0), "0");
  EXPECT_EQ(thousands(999), "999");
  EXPECT_EQ(thousands(1000), "1,000");
  EXPECT_EQ(thousands(1234567), "1,234,567");
  EXPECT_EQ(thousands(-123456), "-123,456");
}

}  // namespace
}  // namespace ventris
