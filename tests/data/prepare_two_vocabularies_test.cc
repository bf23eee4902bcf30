// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "data/error.h"
#include "data/io/hdf5_reader.h"
#include "data/prepare.h"
#include "data/text/sentencepiece_format.h"
#include "data/text/tokenizer_training.h"
#include "tests/data/prepare_fixture.h"
#include "tests/data/test_files.h"

namespace ventris::data {
namespace {

/// The sources have 70 tokens of their own, the targets 80.
class PrepareTwoVocabulariesTest : public PrepareTest {
 protected:
  void SetUp() override {
    PrepareTest::SetUp();
    options_.source_vocab_size = 70;
    options_.tokenizer.vocab_size = 80;
  }

  /// The model that is trained on the lines of one side alone.
  std::string model_of(const std::string& path, int vocab_size) const {
    TokenizerTraining training = options_.tokenizer;
    training.vocab_size = vocab_size;
    return train_tokenizer(lines_of(path), training);
  }
  Corpus prepared() const {
    prepare(options_);
    return Corpus(options_.output);
  }
};

TEST_F(PrepareTwoVocabulariesTest, EachSideHasTheTokensOfItsOwnTokenizer) {
  const PrepareReport report = prepare(options_);
  EXPECT_EQ(report.source_vocab_size, 70);
  EXPECT_EQ(report.vocab_size, 80);
  EXPECT_EQ(report.source_tokenizer_sentences, 500);
  EXPECT_EQ(report.tokenizer_sentences, 500);
  const Corpus corpus(options_.output);
  const TokenizerPair& tokenizers = corpus.tokenizers();
  EXPECT_EQ(tokenizers.source().model(), model_of(train().source, 70));
  EXPECT_EQ(tokenizers.target().model(), model_of(train().target, 80));
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(std::ranges::equal(corpus.train().source[i], tokenizers.source().encode(english(i))));
    ASSERT_TRUE(std::ranges::equal(corpus.train().target[i], tokenizers.target().encode(german(i))));
  }
  ASSERT_TRUE(std::ranges::equal(corpus.valid().source[3], tokenizers.source().encode(english(503))));
  ASSERT_TRUE(std::ranges::equal(corpus.valid().target[3], tokenizers.target().encode(german(503))));
  const Hdf5Reader reader(options_.output);
  EXPECT_TRUE(contains(reader.string_attribute("/", "source_tokenizer_origin"), R"("vocab_size":70)"));
  EXPECT_TRUE(contains(reader.string_attribute("/", "tokenizer_origin"), R"("vocab_size":80)"));
}

TEST_F(PrepareTwoVocabulariesTest, ThreadsDoNotChangeTheBytesAndEachSampleIsOfOneSide) {
  set_train(text_of(english, 0, 20000), text_of(german, 0, 20000));
  options_.tokenizer.max_sentences = 3000;
  options_.threads = 1;
  const PrepareReport report = prepare(options_);
  for (const int64_t sentences : {report.source_tokenizer_sentences, report.tokenizer_sentences}) {
    EXPECT_GE(sentences, 1500);
    EXPECT_LE(sentences, 3000);
  }
  options_.threads = 5;
  EXPECT_EQ(prepare(options_).digest, report.digest);
}

TEST_F(PrepareTwoVocabulariesTest, BothCanBeGiven) {
  const TokenizerModels models = prepared().tokenizers().models();
  const auto origin = [](const std::string& path, const char* name) {
    return Hdf5Reader(path).string_attribute("/", name);
  };
  EXPECT_TRUE(contains(origin(options_.output, "source_tokenizer_origin"), R"("vocab_size":70)"));
  options_.source_vocab_size = 0;
  options_.tokenizer_model = put("t.model", models.target);
  options_.source_tokenizer_model = put("s.model", models.source);
  EXPECT_EQ(prepare(options_).source_tokenizer_sentences, 0);
  EXPECT_TRUE(Corpus(options_.output).tokenizers().models() == models);
  EXPECT_EQ(origin(options_.output, "source_tokenizer_origin"), R"({"given":"s.model"})");
  EXPECT_EQ(origin(options_.output, "tokenizer_origin"), R"({"given":"t.model"})");
}

TEST_F(PrepareTwoVocabulariesTest, ATagIsATokenOfItsSideAlone) {
  options_.corpora[0].source_tag = "<bt>";
  options_.corpora[0].target_tag = "<2de>";
  const Corpus corpus = prepared();
  const std::string mark(kSpaceMark);
  const TokenizerPair& tokenizers = corpus.tokenizers();
  EXPECT_EQ(corpus.train().source[0][0], tokenizers.source().find(mark + "<bt>"));
  EXPECT_EQ(corpus.train().target[0][0], tokenizers.target().find(mark + "<2de>"));
  EXPECT_EQ(tokenizers.source().find(mark + "<2de>"), -1);
  EXPECT_EQ(tokenizers.target().find(mark + "<bt>"), -1);
  options_.source_vocab_size = 0;
  options_.source_tokenizer_model = put("s.model", tokenizers.source().model());
  options_.tokenizer_model = put("t.model", tokenizers.target().model());
  EXPECT_EQ(prepare(options_).train.kept, 500);
  options_.corpora[0].source_tag = "<2de>";
  EXPECT_TRUE(
      contains(expect_failure(ErrorKind::kBadConfiguration), "not one token of the tokenizer of sources"));
}

TEST_F(PrepareTwoVocabulariesTest, AnErrorNamesTheSide) {
  options_.source_vocab_size = 32000;
  const std::string message = expect_failure(ErrorKind::kBadConfiguration);
  EXPECT_TRUE(contains(message, "sources: a vocabulary of 32000") &&
              contains(message, "pass --source-vocab-size"))
      << message;
  options_.source_vocab_size = 70;
  options_.tokenizer.vocab_size = 32000;
  EXPECT_TRUE(contains(expect_failure(ErrorKind::kBadConfiguration), "pass --target-vocab-size"));
}

}  // namespace
}  // namespace ventris::data
