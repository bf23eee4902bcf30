// SPDX-License-Identifier: Apache-2.0
#include "data/corpus_writer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "data/corpus.h"
#include "data/io/hdf5_reader.h"
#include "data/text/tokenizer.h"
#include "data/text/tokenizer_training.h"
#include "tests/data/test_files.h"
#include "tests/data/text/sentencepiece_model.h"

namespace ventris::data {
namespace {

using Ids = std::vector<int32_t>;

struct Rows : CorpusPairs {
  Rows& add(const Ids& from, const Ids& to, float weight = 1.0F, const std::string& from_text = "",
            const std::string& to_text = "") {
    source.add(from);
    target.add(to);
    source.add_text(from_text);
    target.add_text(to_text);
    weights.push_back(weight);
    return *this;
  }
};

class CorpusWriterTest : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    path_ = in_folder("corpus.h5");
  }

  static Tokenizer tokenizer(int vocab_size = 16) {
    TokenizerTraining options;
    options.vocab_size = vocab_size;
    return {train_tokenizer({"abc abc", "cab cab"}, options), "a test"};
  }

  /// Two corpora and a validation pair; returns the digest.
  std::string write(const CorpusContents& contents) {
    const TokenizerPair models(tokenizer());
    CorpusWriter writer(path_, models, contents);
    writer.begin_part("clean");
    writer.add_train(Rows().add({3, 4, 5}, {7}, 0.5F, "abc", "ä"));
    writer.add_train(Rows().add({}, {8, 9}, 2.0F, "", "bc").add({6, 6}, {1, 2, 3, 4}));
    writer.end_part(R"({"files":["a.en"]})");
    writer.begin_part("crawled");
    writer.add_train(Rows().add({15}, {14}, 0.0F));
    writer.end_part("{}");
    writer.add_valid(Rows().add({3, 3, 3, 3, 3}, {4}, 1.0F, "", "größer"));
    writer.write_attribute("ratio", 0.5);
    writer.write_attribute("count", int64_t{7});
    writer.write_attribute("text", std::string("some"));
    writer.commit();
    return writer.digest();
  }

  std::string path_;
};

TEST_F(CorpusWriterTest, WhatWasAddedIsRead) {
  const std::string digest = write({.weights = true, .text = true});
  const Corpus corpus(path_);
  EXPECT_EQ(corpus.digest(), digest);
  const SentencePairs& train = corpus.train();
  ASSERT_EQ(train.size(), 4);
  const std::vector<Ids> source = {{3, 4, 5}, {}, {6, 6}, {15}};
  const std::vector<Ids> target = {{7}, {8, 9}, {1, 2, 3, 4}, {14}};
  const std::vector<float> weights = {0.5F, 2.0F, 1.0F, 0.0F};
  const std::vector<std::string> source_text = {"abc", "", "", ""};
  const std::vector<std::string> target_text = {"ä", "bc", "", ""};
  ASSERT_TRUE(train.weighted());
  ASSERT_TRUE(corpus.has_text());
  for (size_t i = 0; i < source.size(); ++i) {
    const auto pair = static_cast<int64_t>(i);
    EXPECT_TRUE(std::ranges::equal(train.source[pair], source[i])) << i;
    EXPECT_TRUE(std::ranges::equal(train.target[pair], target[i])) << i;
    EXPECT_EQ(train.source.length(pair), std::ssize(source[i]));
    EXPECT_EQ(train.weight(pair), weights[i]);
    EXPECT_EQ(corpus.train_source_text(pair), source_text[i]);
    EXPECT_EQ(corpus.train_target_text(pair), target_text[i]);
  }
  EXPECT_EQ(train.source.total_tokens(), 6);
  EXPECT_EQ(train.target.total_tokens(), 8);
  ASSERT_EQ(corpus.valid().size(), 1);
  EXPECT_EQ(corpus.valid().source.length(0), 5);
  EXPECT_EQ(corpus.valid_reference(0), "größer");
  EXPECT_EQ(corpus.max_length(), 5);
}

TEST_F(CorpusWriterTest, TheCorporaOfAFileAreDescribed) {
  write({.weights = false, .text = false});
  const Corpus corpus(path_);
  ASSERT_EQ(corpus.parts().size(), 2U);
  const CorpusPart& clean = corpus.parts()[0];
  EXPECT_EQ(clean.name, "clean");
  EXPECT_EQ(clean.first, 0);
  EXPECT_EQ(clean.pairs, 3);
  EXPECT_EQ(clean.source_tokens, 5);
  EXPECT_EQ(clean.target_tokens, 7);
  EXPECT_EQ(clean.longest_source, 3);
  EXPECT_EQ(clean.longest_target, 4);
  EXPECT_EQ(clean.details, R"({"files":["a.en"]})");
  EXPECT_EQ(corpus.parts()[1].first, 3);
  EXPECT_EQ(corpus.parts()[1].pairs, 1);
  EXPECT_FALSE(corpus.train().weighted());
  EXPECT_EQ(corpus.train().weight(2), 1.0F);
  EXPECT_FALSE(corpus.has_text());
  const Hdf5Reader reader(path_);
  EXPECT_EQ(reader.double_attribute("/", "ratio"), 0.5);
  EXPECT_EQ(reader.int_attribute("/", "count"), 7);
  EXPECT_EQ(reader.string_attribute("/", "text"), "some");
}

TEST_F(CorpusWriterTest, EqualContentsGiveEqualFilesAndWeightsOthers) {
  const std::string digest = write({.weights = false, .text = false});
  const std::string bytes = bytes_of(path_);
  EXPECT_EQ(write({.weights = false, .text = false}), digest);
  EXPECT_TRUE(bytes_of(path_) == bytes);
  EXPECT_NE(write({.weights = true, .text = false}), digest);
}

TEST_F(CorpusWriterTest, ASideCanHaveAVocabularyOfItsOwn) {
  const TokenizerPair models(tokenizer(12), tokenizer());
  CorpusWriter writer(path_, models, {.weights = false, .text = false});
  writer.begin_part("train");
  writer.add_train(Rows().add({11, 3}, {15}));
  writer.end_part("{}");
  writer.add_valid(Rows().add({3}, {14}));
  writer.commit();
  const Corpus corpus(path_);
  EXPECT_FALSE(corpus.tokenizers().shared());
  EXPECT_TRUE(corpus.tokenizers().models() == models.models());
  EXPECT_TRUE(std::ranges::equal(corpus.train().source[0], Ids{11, 3}));
  EXPECT_TRUE(std::ranges::equal(corpus.train().target[0], Ids{15}));
  const Hdf5Reader reader(path_);
  EXPECT_EQ(reader.int_attribute("/", "format_version"), 3);
  EXPECT_EQ(reader.int_attribute("/", "vocab_size"), 16);
  EXPECT_EQ(reader.int_attribute("/", "source_vocab_size"), 12);
}

TEST_F(CorpusWriterTest, TheLargerVocabularyDecidesTheWidthOfIds) {
  std::string model = marks();
  constexpr int kWords = 65540;
  for (int i = 0; i < kWords; ++i) model += piece(fmt::format("w{}", i));
  for (const bool wide_source : {true, false}) {
    const auto side = [&](bool is_wide) { return is_wide ? Tokenizer(model, "wide") : tokenizer(); };
    const TokenizerPair models(side(wide_source), side(!wide_source));
    CorpusWriter writer(path_, models, {.weights = false, .text = false});
    const Ids large = {kWords};
    const Ids small = {15};
    writer.begin_part("train");
    writer.add_train(Rows().add(wide_source ? large : small, wide_source ? small : large));
    writer.end_part("{}");
    writer.commit();
    const Corpus corpus(path_);
    EXPECT_TRUE(std::ranges::equal(corpus.train().source[0], wide_source ? large : small));
    EXPECT_TRUE(std::ranges::equal(corpus.train().target[0], wide_source ? small : large));
  }
}

TEST_F(CorpusWriterTest, NothingRemainsWithoutACommit) {
  {
    const TokenizerPair models(tokenizer());
    CorpusWriter writer(path_, models, {.weights = true, .text = true});
    writer.begin_part("clean");
    writer.add_train(Rows().add({3}, {4}));
  }
  EXPECT_EQ(files(), 0);
}

}  // namespace
}  // namespace ventris::data
