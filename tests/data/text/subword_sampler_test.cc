// SPDX-License-Identifier: Apache-2.0
#include "data/text/subword_sampler.h"

#include <gtest/gtest.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "data/text/subword_model.h"
#include "data/text/tokenizer_training.h"
#include "tests/data/test_files.h"
#include "tests/data/text/sentencepiece_model.h"
#include "tests/data/text/sentencepiece_training.h"

namespace ventris::data {
namespace {

using Ids = std::vector<int32_t>;
using Strings = std::vector<std::string>;

/// Words of syllables, so that most can be cut in several ways, and some punctuation.
Strings sampled_training_text() {
  const Strings syllables = {"qui", "ck",  "ly", "jum", "ping", "un",  "re",  "er",
                             "st",  "grö", "ße", "fo",  "x",    "ing", "ment"};
  std::mt19937 random(3);
  Strings text;
  for (int i = 0; i < 800; ++i) {
    std::string line = "The quick fox can't jump over " + std::to_string(i) + " lazy \"Äpfel\";";
    for (int word = 0; word < 6; ++word) {
      line += ' ';
      for (unsigned left = random() % 4 + 1; left > 0; --left) line += syllables[random() % syllables.size()];
    }
    text.push_back(line);
  }
  return text;
}

std::string train_sampled(SentencePieceArguments arguments) {
  arguments.insert({{"vocab_size", "300"}, {"hard_vocab_limit", "false"}});
  return train_sentencepiece(sampled_training_text(), std::move(arguments));
}

/// Lines with unknown characters, white space of all kinds, characters that normalise to others or to
/// nothing, and a word that is too long to be remembered.
Strings odd_text() {
  Strings lines = sampled_training_text();
  lines.resize(20);
  const Strings odd = {"",
                       " ",
                       "  a  b  ",
                       "fox \u2581jumps",
                       "日本 語 quick日fox",
                       "ﬁne Ｗord e\u0301",
                       "\u200b x",
                       "a\tb\u00a0c\u3000d",
                       "½ ℃ \u0385 …",
                       "日 語 日",
                       std::string(70, 'x') + " fox",
                       "quickfox <x> fox",
                       "quick quickly <0x41> <s> </s> <unk>",
                       "🙂 naïve🙂"};
  lines.insert(lines.end(), odd.begin(), odd.end());
  return lines;
}

/// Kinds of models, and the alpha with which the sampler must give the deterministic encoding.
struct Kind {
  const char* name;
  SentencePieceArguments arguments;
  double deterministic;
};
// With such a power no segmentation but the most probable one is ever drawn.
constexpr double kBestOnly = 1e6;

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"bpe", {}, 0.0},
      {"unigram", {{"model_type", "unigram"}}, kBestOnly},
      {"bpe with bytes",
       {{"byte_fallback", "true"}, {"vocab_size", "560"}, {"character_coverage", "0.98"}},
       0.0},
      {"unigram with bytes",
       {{"model_type", "unigram"},
        {"byte_fallback", "true"},
        {"vocab_size", "560"},
        {"character_coverage", "0.98"}},
       kBestOnly},
      {"bpe with few characters", {{"character_coverage", "0.98"}, {"vocab_size", "150"}}, 0.0},
      {"bpe with user-defined pieces", {{"user_defined_symbols", "<x>,quick,fox ju"}}, 0.0},
      {"unigram with user-defined pieces",
       {{"model_type", "unigram"}, {"user_defined_symbols", "<x>,quick,fox ju"}},
       kBestOnly},
      {"bpe over spaces", {{"split_by_whitespace", "false"}, {"vocab_size", "400"}}, 0.0},
      {"unigram over spaces", {{"model_type", "unigram"}, {"split_by_whitespace", "false"}}, kBestOnly},
      {"spaces after words", {{"treat_whitespace_as_suffix", "true"}}, 0.0},
      {"no dummy prefix", {{"model_type", "unigram"}, {"add_dummy_prefix", "false"}}, kBestOnly},
      {"all spaces", {{"remove_extra_whitespaces", "false"}}, 0.0},
      {"split digits", {{"split_digits", "true"}}, 0.0},
  };
  return all;
}

double score_of(const SubwordPieces& pieces, const Ids& ids) {
  double sum = 0.0;
  for (const int32_t id : ids) sum += pieces.score(id);
  return sum;
}

TEST(SubwordSamplerTest, WithoutDropoutOrWithTheBestAloneTheIdsAreThoseOfTheTokenizer) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    const Tokenizer tokenizer(train_sampled(kind.arguments), "test");
    const SubwordPieces pieces{SentencePieceModel(tokenizer.model())};
    SubwordSampler sampler(tokenizer, kind.deterministic);
    Ids ids;
    for (const std::string& line : odd_text()) {
      for (const uint64_t key : {uint64_t{1}, uint64_t{2}}) {
        sampler.sample(line, key, ids);
        const Ids expected = tokenizer.encode(line);
        // Of equally probable segmentations either is the best.
        if (kind.deterministic == kBestOnly &&
            std::abs(score_of(pieces, ids) - score_of(pieces, expected)) < 1e-4)
          continue;
        EXPECT_EQ(ids, expected) << "\"" << line << "\"";
      }
    }
  }
}

TEST(SubwordSamplerTest, SamplesDifferAndDecodeToTheSameText) {
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    const Tokenizer tokenizer(train_sampled(kind.arguments), "test");
    SubwordSampler sampler(tokenizer, 0.3);
    Ids ids;
    std::set<Ids> drawn;
    for (const std::string& line : odd_text()) {
      const Ids plain = tokenizer.encode(line);
      for (uint64_t key = 0; key < 20; ++key) {
        sampler.sample(line, key, ids);
        EXPECT_EQ(tokenizer.decode(ids), tokenizer.decode(plain)) << "\"" << line << "\"";
        drawn.insert(ids);
      }
    }
    EXPECT_GT(drawn.size(), 20 * 10U) << "of 20 long lines and others, 20 times each";
  }
}

TEST(SubwordSamplerTest, ASampleIsAFunctionOfTextAndKey) {
  for (const char* model : {"bpe", "unigram"}) {
    const Tokenizer tokenizer(train_sampled({{"model_type", model}}), "test");
    SubwordSampler used(tokenizer, 0.2);
    Ids ids;
    Ids again;
    for (const std::string& line : odd_text()) used.sample(line, 5, ids);
    for (const std::string& line : odd_text()) {
      SubwordSampler fresh(tokenizer, 0.2);
      used.sample(line, 7, ids);
      fresh.sample(line, 7, again);
      EXPECT_EQ(ids, again) << model << " \"" << line << "\"";
    }
  }
}

using Counts = std::map<Ids, int>;

/// The statistic of the test that two samples of equal size come from one distribution; rare outcomes are
/// one.
double chi_square(const Counts& a, const Counts& b, int& cells) {
  constexpr int kRare = 20;
  Counts all = a;
  for (const auto& [ids, count] : b) all[ids] += count;
  const auto count_of = [](const Counts& counts, const Ids& ids) {
    const auto found = counts.find(ids);
    return found == counts.end() ? 0 : found->second;
  };
  double sum = 0.0;
  int rare_a = 0;
  int rare_b = 0;
  cells = 0;
  const auto add = [&](int x, int y) {
    if (x + y == 0) return;
    sum += static_cast<double>((x - y) * (x - y)) / (x + y);
    ++cells;
  };
  for (const auto& [ids, both] : all) {
    const int x = count_of(a, ids);
    const int y = count_of(b, ids);
    if (both >= kRare) {
      add(x, y);
    } else {
      rare_a += x;
      rare_b += y;
    }
  }
  add(rare_a, rare_b);
  return sum;
}

/// Far above all but one in some millions of statistics with these degrees of freedom.
double limit_of(int cells) {
  const double freedom = cells - 1;
  return freedom + 5.0 * std::sqrt(2.0 * freedom) + 10.0;
}

TEST(SubwordSamplerTest, TheDistributionIsThatOfSentencePiece) {
  constexpr int kDraws = 20000;
  sentencepiece::SetRandomGeneratorSeed(17);
  struct Case {
    const char* model;
    double alpha;
  };
  for (const Case& use : {Case{"bpe", 0.1}, Case{"bpe", 0.5}, Case{"unigram", 0.2}, Case{"unigram", 0.7}}) {
    const std::string model = train_sampled({{"model_type", use.model}});
    const Tokenizer tokenizer(model, "test");
    sentencepiece::SentencePieceProcessor theirs;
    ASSERT_TRUE(theirs.LoadFromSerializedProto(model).ok());
    SubwordSampler sampler(tokenizer, use.alpha);
    SubwordSampler other(tokenizer, use.alpha + 0.1);
    for (const char* text : {"quickly", "jumping", "größere 日x", "the unrest"}) {
      Counts ours_counts;
      Counts their_counts;
      Counts other_counts;
      Ids ids;
      for (int draw = 0; draw < kDraws; ++draw) {
        sampler.sample(text, static_cast<uint64_t>(draw), ids);
        ++ours_counts[ids];
        other.sample(text, static_cast<uint64_t>(draw), ids);
        ++other_counts[ids];
        ASSERT_TRUE(theirs.SampleEncode(text, -1, static_cast<float>(use.alpha), &ids).ok());
        ++their_counts[ids];
      }
      int cells = 0;
      const double statistic = chi_square(ours_counts, their_counts, cells);
      EXPECT_GT(cells, 2) << use.model << " " << text;
      EXPECT_LT(statistic, limit_of(cells)) << use.model << " " << use.alpha << " " << text << " " << cells;
      const double of_other = chi_square(other_counts, their_counts, cells);
      EXPECT_GT(of_other, limit_of(cells)) << "another alpha is not told apart: " << use.model << " " << text;
    }
  }
}

// Its probability is far below the smallest number.
TEST(SubwordSamplerTest, ALongTextWithoutSpacesIsSampled) {
  const Tokenizer tokenizer(train_sampled({{"model_type", "unigram"}}), "test");
  SubwordSampler sampler(tokenizer, 1.0);
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "quickfox";
  Ids ids;
  sampler.sample(text, 1, ids);
  EXPECT_EQ(tokenizer.decode(ids), text);
  EXPECT_NE(ids, tokenizer.encode(text));
  EXPECT_LT(ids.size(), text.size());
}

TEST(SubwordSamplerTest, MoreWordsThanItRemembersGiveTheSameIds) {
  const Tokenizer tokenizer(train_sampled({}), "test");
  SubwordSampler sampler(tokenizer, 0.0);
  Ids ids;
  for (int i = 0; i < 150000; ++i) {
    const std::string word = "w" + std::to_string(i);
    sampler.sample(word, 1, ids);
    if (i % 997 != 0) continue;
    ASSERT_EQ(ids, tokenizer.encode(word)) << word;
  }
}

TEST(SubwordSamplerTest, ModelsWithoutAChoiceAreRefused) {
  for (const char* model : {"char", "word"}) {
    const Tokenizer tokenizer(train_sampled({{"model_type", model}, {"vocab_size", "30"}}), "test");
    EXPECT_TRUE(contains(message_of(ErrorKind::kBadConfiguration, [&] { SubwordSampler(tokenizer, 0.1); }),
                         "BPE or unigram"));
  }
  const Tokenizer unused(marks() + piece("a") + piece("ab", 5) + piece("b"), "test");
  EXPECT_TRUE(
      contains(message_of(ErrorKind::kBadConfiguration, [&] { SubwordSampler(unused, 0.1); }), "unused"));
}

}  // namespace
}  // namespace ventris::data
