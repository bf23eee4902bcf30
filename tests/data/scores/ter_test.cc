// SPDX-License-Identifier: Apache-2.0
#include "data/scores/ter.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/error.h"
#include "data/files/json_text.h"
#include "score_cases.h"

namespace ventris::data {
namespace {

using nlohmann::json;

double ter(const std::string& hypothesis, const std::string& reference) {
  return corpus_score(metric_of("ter", json::object()), {hypothesis}, {{reference}});
}

TEST(Ter, AgreesWithTheTestVectorsOfSacrebleu) {
  const std::string path = shared_data("sacrebleu-vectors/vectors.jsonl");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  int compared = 0;
  for (const std::string& line : read_lines(path)) {
    const json vector = read_json(line);
    if (vector.at("metric") != "TER") continue;
    const double score =
        corpus_score(metric_of("ter", vector.at("params")), vector.at("hyps"), vector.at("refs"));
    EXPECT_NEAR(score, vector.at("sacrebleu_2.6.0").get<double>(), 1e-9) << line;
    EXPECT_NEAR(score, vector.at("expected").get<double>(), vector.at("tol").get<double>()) << line;
    ++compared;
  }
  EXPECT_EQ(compared, 4);
}

TEST(Ter, AgreesWithTercomOnWmt17) {
  const std::string folder = shared_data("wmt17-en-de-systems/");
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  const std::vector<Lines> references = {read_lines(folder + "newstest2017.en-de.ref.de.gz")};
  const Lines fields = split(read_lines(folder + "expected.tsv").at(1), '\t');
  const double score =
      corpus_score(metric_of("ter", json::object()), read_lines(folder + fields[0] + ".de.gz"), references);
  EXPECT_NEAR(score / 100, std::stod(fields[3]), 0.01);
}

TEST(Ter, CountsInsertionsDeletionsSubstitutionsAndShifts) {
  EXPECT_EQ(ter("a b c d", "a b c d"), 0.0);
  EXPECT_EQ(ter("a b d", "a b c d"), 25.0);
  EXPECT_EQ(ter("a b c x d", "a b c d"), 25.0);
  EXPECT_EQ(ter("a b x d", "a b c d"), 25.0);
  EXPECT_NEAR(ter("d e f a b c g", "a b c d e f g"), 100.0 / 7, 1e-12);  // one shift of three words
  EXPECT_EQ(ter("b c d e a", "a b c d e"), 20.0);
}

TEST(Ter, ShiftsTenWordsAtOnce) {
  const std::string more = "k l m n o p q r s t u v";
  EXPECT_NEAR(ter(more + " a b c d e f g h i j", "a b c d e f g h i j " + more), 100.0 / 22, 1e-12);
  EXPECT_NEAR(ter(more + " a b c d e f g h i j z", "a b c d e f g h i j z " + more), 200.0 / 23, 1e-12);
}

// The other way round it would be twelve words in two shifts.
TEST(Ter, ShiftsAWordToTheEnd) {
  const std::string words = "a b c d e f g h i j k l";
  EXPECT_NEAR(ter("z " + words, words + " z"), 100.0 / 13, 1e-12);
}

TEST(Ter, HasAScoreForEmptyText) {
  EXPECT_EQ(ter("", "a b"), 100.0);
  EXPECT_EQ(ter("a b", ""), 100.0);
  EXPECT_EQ(ter("", ""), 0.0);
}

TEST(Ter, TakesTheFewestEditsAndTheMeanLengthOfReferences) {
  // One edit against "a b c e" and lengths 4 and 2.
  EXPECT_NEAR(corpus_score(metric_of("ter", json::object()), {"a b c d"}, {{"a b c e"}, {"x y"}}), 100.0 / 3,
              1e-12);
}

TEST(Ter, NormalizesLikeTercom) {
  EXPECT_EQ(ter_tokenize("It's 1,000.5 &quot;dogs&quot;, no-one 5-6.", {.normalized = true}),
            "it 's 1,000.5 \" dogs \" , no-one 5 - 6 .");
  EXPECT_EQ(ter_tokenize("A. (b)!", {.no_punct = true, .case_sensitive = true}), "A b");
  EXPECT_EQ(ter_tokenize("我爱、北京", {.normalized = true, .asian_support = true}), "我 爱 、 北 京");
  EXPECT_EQ(ter_tokenize("我爱、北京", {.no_punct = true, .asian_support = true}), "我爱北京");
  EXPECT_EQ(ter_tokenize("我爱、北京", {.asian_support = true}), "我爱、北京");
}

TEST(Ter, SignaturesAreThoseOfSacrebleu) {
  EXPECT_EQ(ter_signature({}, 1), "nrefs:1|case:lc|tok:tercom|norm:no|punct:yes|asian:no|version:2.6.0");
  EXPECT_EQ(ter_signature({true, true, true, true}, 2, "ar:10000|seed:12345"),
            "nrefs:2|ar:10000|seed:12345|case:mixed|tok:tercom|norm:yes|punct:no|asian:yes|version:2.6.0");
}

TEST(Ter, RefusesSentencesWhoseTableWouldNotFitAndMissingReferences) {
  std::string many;
  for (int i = 0; i < 20000; ++i) many += "w ";
  EXPECT_THROW(ter(many, many), DataError);
  EXPECT_THROW(corpus_score(metric_of("ter", json::object()), {"a"}, {}), DataError);
}

TEST(Ter, FindsAnAlignmentWhereLengthsDifferMuch) {
  std::string many;
  for (int i = 0; i < 300; ++i) many += "w" + std::to_string(i) + " ";
  EXPECT_NEAR(ter("w299", many), 100.0 * 299 / 300, 1e-12);
  EXPECT_EQ(ter("w7", many), 100.0);  // out of the beam
  EXPECT_EQ(ter(many, "w7"), 100.0 * 299);
}

}  // namespace
}  // namespace ventris::data
