// SPDX-License-Identifier: Apache-2.0
#include "data/sampled_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "data/corpus.h"
#include "data/corpus_writer.h"
#include "data/text/tokenizer.h"
#include "data/text/tokenizer_training.h"
#include "tests/data/test_files.h"

namespace ventris::data {
namespace {

using Ids = std::vector<int32_t>;

constexpr SampledText::MaxLengths kNoMaximum = {1000, 1000};

class SampledTextTest : public FolderTest {
 protected:
  static constexpr int kPairs = 60;

  void SetUp() override {
    FolderTest::SetUp();
    for (int i = 0; i < kPairs; ++i) {
      sources_.push_back("the quick brown fox jumps over lazy dog " + std::to_string(i * 37));
      targets_.push_back("tomorrow's newspaper is quoted twice in garden " + std::to_string(i * 53));
    }
    const auto trained = [](const std::vector<std::string>& lines, int vocab_size) {
      TokenizerTraining training;
      training.vocab_size = vocab_size;
      return Tokenizer(train_tokenizer(lines, training), "test");
    };
    // Of other pieces on each side, so that the tokenizer of the other one is seen.
    tokenizers_ = std::make_unique<TokenizerPair>(trained(sources_, 70), trained(targets_, 90));
    corpus_ = std::make_unique<Corpus>(write_corpus("text.h5", /*text=*/true));
  }

  std::string write_corpus(const std::string& name, bool text) {
    CorpusWriter writer(in_folder(name), *tokenizers_, {.weights = false, .text = text});
    writer.begin_part("train");
    for (size_t i = 0; i < kPairs; ++i) {
      CorpusPairs pair;
      pair.source.add(tokenizers_->source().encode(sources_[i]));
      pair.target.add(tokenizers_->target().encode(targets_[i]));
      pair.source.add_text(sources_[i]);
      pair.target.add_text(targets_[i]);
      writer.add_train(pair);
    }
    writer.end_part("{}");
    writer.commit();
    return in_folder(name);
  }

  /// Both sides of all pairs of an epoch.
  std::vector<PairTokens> epoch_of(const SampleOptions& options, int64_t epoch) const {
    const SampledText sampled(*corpus_, options);
    std::vector<PairTokens> all(kPairs);
    for (int64_t pair = 0; pair < kPairs; ++pair)
      sampled.sample({.pair = pair, .epoch = epoch}, kNoMaximum, all[static_cast<size_t>(pair)]);
    return all;
  }
  Ids source_of(int64_t pair) const {
    return tokenizers_->source().encode(sources_[static_cast<size_t>(pair)]);
  }
  Ids target_of(int64_t pair) const {
    return tokenizers_->target().encode(targets_[static_cast<size_t>(pair)]);
  }
  /// The pairs whose sides differ.
  static int differences(const std::vector<PairTokens>& a, const std::vector<PairTokens>& b,
                         Ids PairTokens::*side) {
    int count = 0;
    for (size_t i = 0; i < a.size(); ++i) count += a[i].*side == b[i].*side ? 0 : 1;
    return count;
  }

  std::vector<std::string> sources_;
  std::vector<std::string> targets_;
  std::unique_ptr<TokenizerPair> tokenizers_;
  std::unique_ptr<Corpus> corpus_;
};

constexpr SampleOptions kBoth = {.source_alpha = 0.2, .target_alpha = 0.2, .seed = 5, .max_length = 1000};

TEST_F(SampledTextTest, SamplesAreOfTheTextAndDifferByEpochSeedAndSide) {
  const std::vector<PairTokens> first = epoch_of(kBoth, 0);
  for (int64_t pair = 0; pair < kPairs; ++pair) {
    const PairTokens& tokens = first[static_cast<size_t>(pair)];
    EXPECT_EQ(tokenizers_->source().decode(tokens.source), sources_[static_cast<size_t>(pair)]);
    EXPECT_EQ(tokenizers_->target().decode(tokens.target), targets_[static_cast<size_t>(pair)]);
  }
  SampleOptions other_seed = kBoth;
  other_seed.seed = 6;
  for (Ids PairTokens::*side : {&PairTokens::source, &PairTokens::target}) {
    EXPECT_EQ(differences(first, epoch_of(kBoth, 0), side), 0);
    EXPECT_GT(differences(first, epoch_of(kBoth, 1), side), kPairs / 2);
    EXPECT_GT(differences(first, epoch_of(other_seed, 0), side), kPairs / 2);
  }
}

TEST_F(SampledTextTest, ASideWithoutAlphaHasTheTokensOfTheCorpus) {
  SampleOptions options = kBoth;
  options.target_alpha = 0.0;
  int changed = 0;
  const std::vector<PairTokens> tokens = epoch_of(options, 0);
  for (int64_t pair = 0; pair < kPairs; ++pair) {
    EXPECT_EQ(tokens[static_cast<size_t>(pair)].target, target_of(pair));
    changed += tokens[static_cast<size_t>(pair)].source == source_of(pair) ? 0 : 1;
  }
  EXPECT_GT(changed, kPairs / 2);
}

TEST_F(SampledTextTest, ASampleThatIsTooLongGivesWayToTheTokensOfTheCorpus) {
  const SampledText sampled(*corpus_, kBoth);
  SampleOptions few = kBoth;
  few.max_length = std::ssize(source_of(0));
  const SampledText limited(*corpus_, few);
  int replaced = 0;
  for (int64_t epoch = 0; epoch < 50; ++epoch) {
    PairTokens free;
    PairTokens tokens;
    sampled.sample({.pair = 0, .epoch = epoch}, kNoMaximum, free);
    const bool is_too_long = std::ssize(free.source) > few.max_length;
    replaced += is_too_long ? 1 : 0;
    sampled.sample({.pair = 0, .epoch = epoch}, {few.max_length, 1000}, tokens);
    EXPECT_EQ(tokens.source, is_too_long ? source_of(0) : free.source);
    EXPECT_EQ(tokens.target, free.target);
    limited.sample({.pair = 0, .epoch = epoch}, kNoMaximum, tokens);
    EXPECT_EQ(tokens.source, is_too_long ? source_of(0) : free.source);
  }
  EXPECT_GT(replaced, 10);
}

TEST_F(SampledTextTest, ThreadsDrawTheSame) {
  const std::vector<PairTokens> expected = epoch_of(kBoth, 3);
  const SampledText sampled(*corpus_, kBoth);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      PairTokens tokens;
      for (int64_t i = 0; i < kPairs; ++i) {
        const int64_t pair = (i * 7 + static_cast<int64_t>(t)) % kPairs;
        sampled.sample({.pair = pair, .epoch = 3}, kNoMaximum, tokens);
        wrong[t] += tokens.source == expected[static_cast<size_t>(pair)].source ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

TEST_F(SampledTextTest, BatchesHoldWhatTheSampledLengthsAllow) {
  const auto sampled = std::make_shared<const SampledText>(*corpus_, kBoth);
  const BatchSource batches(
      corpus_->train(), corpus_->parts(),
      {.source_tokens = 400, .target_tokens = 400, .shards = 2, .seed = 5, .sampled = sampled});
  DataPosition position;
  int64_t pairs = 0;
  for (; position.epoch < 3; position = batches.at(position).next) {
    const GlobalBatch batch = batches.at(position);
    const GlobalBatch again = batches.at(position);
    for (size_t s = 0; s < batch.shards.size(); ++s) {
      const Shard& shard = batch.shards[s];
      ASSERT_EQ(shard.sampled.size(), shard.pairs.size());
      int64_t source_rows = 0;
      int64_t target_rows = 0;
      for (size_t i = 0; i < shard.pairs.size(); ++i) {
        PairTokens expected;
        sampled->sample(shard.pairs[i], {199, 199}, expected);
        EXPECT_EQ(shard.sampled[i].source, expected.source);
        EXPECT_EQ(shard.sampled[i].target, expected.target);
        EXPECT_EQ(shard.sampled[i].source, again.shards[s].sampled[i].source);
        source_rows += std::ssize(expected.source) + 1;
        target_rows += std::ssize(expected.target) + 1;
      }
      EXPECT_EQ(shard.source_rows, source_rows);
      EXPECT_EQ(shard.target_rows, target_rows);
      EXPECT_LE(std::max(source_rows, target_rows), 200);
      EXPECT_GT(std::max(source_rows, target_rows), 100);
    }
    pairs += batch.pairs;
  }
  EXPECT_GE(pairs, 3 * kPairs);
}

// A shard that holds the tokens of the corpus alone, and no sample that is longer.
TEST_F(SampledTextTest, AShardThatHoldsTheLongestSentenceIsNeverLeftEmpty) {
  const CorpusPart& part = corpus_->parts().front();
  const auto sampled = std::make_shared<const SampledText>(*corpus_, kBoth);
  const BatchSource batches(corpus_->train(), corpus_->parts(),
                            {.source_tokens = part.longest_source + 1,
                             .target_tokens = part.longest_target + 1,
                             .shards = 1,
                             .seed = 5,
                             .sampled = sampled});
  DataPosition position;
  for (int step = 0; step < 2 * kPairs; ++step) {
    const GlobalBatch batch = batches.at(position);
    EXPECT_EQ(batch.pairs, 1);
    position = batch.next;
  }
}

TEST_F(SampledTextTest, ACorpusWithoutTextIsRefused) {
  const Corpus plain(write_corpus("plain.h5", /*text=*/false));
  for (const SampleOptions& options : {kBoth, SampleOptions{.target_alpha = 0.1}}) {
    const std::string message =
        message_of(ErrorKind::kBadConfiguration, [&] { const SampledText sampled(plain, options); });
    EXPECT_TRUE(contains(message, "plain.h5")) << message;
    EXPECT_TRUE(contains(message, "prepare --keep-text")) << message;
    EXPECT_TRUE(contains(message, options.source_alpha > 0 ? "--sample-source" : "--sample-target"))
        << message;
  }
}

}  // namespace
}  // namespace ventris::data
