// SPDX-License-Identifier: Apache-2.0
#include "data/text/cached_encoder.h"

#include <gtest/gtest.h>

#include <iterator>
#include <random>
#include <utility>

#include "data/text/word_independence.h"
#include "tests/data/test_files.h"
#include "tests/data/text/sentencepiece_training.h"

namespace ventris::data {
namespace {

using Strings = std::vector<std::string>;

Strings training_text() {
  Strings text;
  for (int i = 0; i < 300; ++i) {
    text.push_back("The quick brown fox jumps over " + std::to_string(i) +
                   " lazy dogs; größere Hunde, Äpfel & café naïve ...");
    text.push_back("tomorrow's newspaper can't be 'quoted' \"twice\" (A) in the garden of " +
                   std::to_string(i * 37));
  }
  return text;
}

/// A model with any of SentencePiece's training options, not only those that we offer.
std::string train_with(SentencePieceArguments arguments) {
  arguments.insert({{"vocab_size", "160"}});
  return train_sentencepiece(training_text(), std::move(arguments));
}

/// Lines of parts that try every rule about spaces: white space of all kinds, combining marks, characters
/// that normalise to nothing, to a space, or to a space and more, unknown characters, long words.
Strings odd_lines(int count_of_lines = 2500) {
  const Strings parts = {
      "fox",    "jumps",  "größere", "Äpfel",  "dogs;",  "'quoted'", "The",     "9",
      " ",      " ",      " ",       "  ",     "\t",     "\u00a0",   "\u3000",  "\u200b",
      "\u0308", "\u0301", "\u00a8",  "\u0385", "\u00b4", "\u1fbf",   "\u00ad",  "\x01",
      "\x7f",   "\r",     "日",      "語",     "ﬁ",      "Ｗ",       "e\u0301", "…",
      "\u2581", "\ufeff", "½",       "℃",      "\u2028", "🙂",     "\u037a",  std::string(70, 'x')};
  std::mt19937 random(7);
  Strings lines = {"", " ", "   ", "\t", "a", " a", "a ", "  a  b  "};
  for (int i = 0; i < count_of_lines; ++i) {
    std::string line;
    const unsigned count = random() % 12;
    for (unsigned k = 0; k < count; ++k) {
      line += parts[random() % parts.size()];
    }
    lines.push_back(line);
  }
  return lines;
}

void expect_same_ids(const Tokenizer& tokenizer, const Strings& lines) {
  CachedEncoder encoder(tokenizer, words_are_independent(tokenizer.model()));
  std::vector<int32_t> ids;
  for (const std::string& line : lines) {
    encoder.encode(line, ids);
    ASSERT_EQ(ids, tokenizer.encode(line)) << "\"" << line << "\"";
  }
}

TEST(CachedEncoderTest, OddLinesGiveTheIdsOfTheTokenizer) {
  for (const char* rule : {"nmt_nfkc", "nmt_nfkc_cf", "nfkc", "nfkc_cf", "identity"}) {
    SCOPED_TRACE(rule);
    const Tokenizer tokenizer(train_with({{"normalization_rule_name", rule}}), "test");
    EXPECT_TRUE(words_are_independent(tokenizer.model()))
        << "words are worth remembering for the models that we train";
    expect_same_ids(tokenizer, odd_lines());
  }
}

TEST(CachedEncoderTest, ModelsWithTagsAreCovered) {
  Strings lines;
  const char* const tags[] = {"<bt> ", "<bt>", "<bt>fox ", " fox", "foxes <bt> ", "<bt><bt>\t", "x<bt>"};
  for (const std::string& line : odd_lines()) {
    const std::string tag = tags[lines.size() % std::size(tags)];
    lines.push_back(lines.size() % 2 == 0 ? tag + line : line + tag + line);
  }
  for (const SentencePieceArguments& arguments : std::vector<SentencePieceArguments>{
           {{"user_defined_symbols", "\u2581<bt>,\u2581fox"}},
           {{"model_type", "unigram"}, {"vocab_size", "100"}, {"user_defined_symbols", "\u2581<bt>,fox"}}}) {
    const Tokenizer tokenizer(train_with(arguments), "test");
    EXPECT_TRUE(words_are_independent(tokenizer.model()));
    expect_same_ids(tokenizer, lines);
  }
  const Strings not_covered = {"\u2581", "<bt>", "\u2581a\u2581b"};
  for (const std::string& symbol : not_covered) {
    EXPECT_FALSE(words_are_independent(train_with({{"user_defined_symbols", symbol}}))) << symbol;
  }
}

TEST(CachedEncoderTest, ModelsThatAreNotCoveredAreLeftToTheTokenizer) {
  const std::vector<SentencePieceArguments> all = {
      {{"add_dummy_prefix", "false"}},
      {{"model_type", "unigram"}, {"vocab_size", "100"}, {"add_dummy_prefix", "false"}},
      {{"model_type", "unigram"}, {"vocab_size", "100"}, {"user_defined_symbols", "fox jumps"}},
      {{"remove_extra_whitespaces", "false"}},
      {{"treat_whitespace_as_suffix", "true"}},
      {{"user_defined_symbols", "quick,fox jumps"}},
      {{"model_type", "word"}, {"vocab_size", "50"}, {"add_dummy_prefix", "false"}},
  };
  for (const SentencePieceArguments& arguments : all) {
    SCOPED_TRACE(arguments.begin()->first);
    const Tokenizer tokenizer(train_with(arguments), "test");
    EXPECT_FALSE(words_are_independent(tokenizer.model()));
    expect_same_ids(tokenizer, odd_lines(300));
  }
}

TEST(CachedEncoderTest, OtherTrainingOptionsGiveTheIdsOfTheTokenizer) {
  const std::vector<SentencePieceArguments> all = {
      {{"split_by_whitespace", "false"}, {"vocab_size", "400"}},
      {{"byte_fallback", "true"}, {"vocab_size", "420"}},
      {{"split_digits", "true"}},
      {{"control_symbols", "fox,<a>"}},
      {{"model_type", "word"}, {"vocab_size", "40"}},
      {{"model_type", "word"}, {"vocab_size", "300"}, {"byte_fallback", "true"}},
      {{"model_type", "char"}, {"vocab_size", "50"}},
      {{"model_type", "unigram"}, {"vocab_size", "100"}},
      {{"model_type", "unigram"}, {"vocab_size", "360"}, {"byte_fallback", "true"}},
      {{"model_type", "unigram"}, {"vocab_size", "100"}, {"split_by_whitespace", "false"}},
      {{"model_type", "unigram"}, {"vocab_size", "100"}, {"normalization_rule_name", "nfkc_cf"}},
      {{"model_type", "unigram"}, {"vocab_size", "60"}, {"character_coverage", "0.98"}},
      {{"split_by_unicode_script", "false"}},
      {{"character_coverage", "0.98"}},
  };
  for (const SentencePieceArguments& arguments : all) {
    SCOPED_TRACE(arguments.begin()->first);
    expect_same_ids(Tokenizer(train_with(arguments), "test"), odd_lines());
  }
  EXPECT_FALSE(words_are_independent(train_with({{"split_by_whitespace", "false"}, {"vocab_size", "400"}})))
      << "pieces of several words";
}

class CachedEncoderRuleTest : public FolderTest {};

TEST_F(CachedEncoderRuleTest, RulesThatReachOverSpacesAreNotCovered) {
  const auto independent = [&](const std::string& rules) {
    return words_are_independent(train_with({{"normalization_rule_tsv", put("rules.tsv", rules)}}));
  };
  EXPECT_TRUE(independent("41\t61\n42\t62\n"));  // A -> a, B -> b
  EXPECT_FALSE(independent("41 20 42\t61\n"));   // "A B" -> a
  EXPECT_FALSE(independent("20 41\t61\n"));      // " A" -> a
  EXPECT_FALSE(independent("20\t61\n"));         // " " -> a
  EXPECT_FALSE(independent("41\t61 20 20\n"));   // A -> "a  "
  EXPECT_FALSE(independent("41\t61 2581\n"));    // A -> "a" and the mark of a space
  const Tokenizer tokenizer(
      train_with({{"normalization_rule_tsv", put("rules.tsv", "66 20\t78\n6F\t61 20\n")}}), "test");
  expect_same_ids(tokenizer, odd_lines());
}

TEST(CachedEncoderTest, BytesThatAreNoModelAreNotCovered) {
  const std::string model = train_with({});
  for (const size_t size : {size_t{0}, size_t{1}, size_t{100}, model.size() / 2, model.size() - 1}) {
    EXPECT_FALSE(words_are_independent(std::string_view(model).substr(0, size))) << size;
  }
  EXPECT_FALSE(words_are_independent("garbage garbage"));
}

TEST(CachedEncoderTest, MoreWordsThanItRemembersGiveTheSameIds) {
  const Tokenizer tokenizer(train_with({}), "test");
  CachedEncoder encoder(tokenizer, true);
  std::vector<int32_t> ids;
  for (int i = 0; i < 300000; ++i) {
    const std::string word = "w" + std::to_string(i % 140000);
    encoder.encode(word, ids);
    if (i % 97 == 0 || i > 299000) {
      ASSERT_EQ(ids, tokenizer.encode(word)) << word;
    }
  }
}

}  // namespace
}  // namespace ventris::data
