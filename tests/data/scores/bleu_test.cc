// SPDX-License-Identifier: Apache-2.0
#include "data/scores/bleu.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "data/error.h"
#include "data/io/json_text.h"
#include "data/text/unicode.h"
#include "score_cases.h"
#include "tests/support/source_dir.h"

namespace ventris::data {
namespace {

using nlohmann::json;

TEST(Bleu, AgreesWithSacrebleuOnOddTextWithAllOptions) {
  std::ifstream file(testing::source_dir() + "/tests/golden/bleu.json");
  const json golden = read_json(std::string(std::istreambuf_iterator<char>(file), {}));
  int64_t cases = 0;
  int corpus_index = 0;
  for (const json& corpus : golden.at("corpora")) {
    const Lines hypotheses = corpus.at("hypotheses");
    const std::vector<Lines> references = corpus.at("references");
    for (const json& expected : corpus.at("cases")) {
      BleuOptions options;
      options.tokenizer = tokenizer_of(expected.at(0));
      options.smoothing = smoothing_of(expected.at(1));
      options.smoothing_value = expected.at(2);
      options.lowercase = expected.at(3) == 1;
      options.effective_order = expected.at(4) == 1;
      const BleuScore score = corpus_bleu(hypotheses, references, options);
      const std::string where = "corpus " + std::to_string(corpus_index) + " " + json_text(expected);
      EXPECT_NEAR(score.score, expected.at(5).get<double>(), 1e-9) << where;
      EXPECT_NEAR(score.brevity_penalty, expected.at(6).get<double>(), 1e-12) << where;
      EXPECT_EQ(score.hypothesis_length, expected.at(7).get<int64_t>()) << where;
      EXPECT_EQ(score.reference_length, expected.at(8).get<int64_t>()) << where;
      for (int n = 0; n < 4; ++n)
        EXPECT_NEAR(score.precisions[n], expected.at(9 + n).get<double>(), 1e-9) << where;
      if (expected.size() > 13) {
        EXPECT_EQ(bleu_signature(options, static_cast<int>(references.size())), expected.at(13)) << where;
        EXPECT_EQ(fmt::format("BLEU = {:.2f} {}", score.score, bleu_details(score)), expected.at(14))
            << where;
      }
      ++cases;
    }
    ++corpus_index;
  }
  EXPECT_EQ(cases, 14 * 96);
}

TEST(Bleu, ALongLineChangesNothingForTheNextOnes) {
  std::string line;
  for (int i = 0; i < 20000; ++i) line += fmt::format("{} ", i);
  const std::vector<std::string_view> long_line = {line};
  const std::vector<std::string_view> reference = {"the old dog sees two birds"};
  BleuCounter counter({});
  BleuCounter fresh({});
  EXPECT_EQ(counter.count(line, long_line)[2], 20000);
  EXPECT_EQ(counter.count("the dog sees two birds", reference),
            fresh.count("the dog sees two birds", reference));
}

/// A row of BleuCounter with the counts of a test vector.
std::vector<double> row_of(const json& stats) {
  std::vector<double> row = {stats.at("sys_len"), stats.at("ref_len")};
  for (const char* name : {"counts", "totals"})
    row.insert(row.end(), stats.at(name).begin(), stats.at(name).end());
  return row;
}

void expect_counts(const std::vector<double>& row, const json& expected) {
  for (size_t n = 0; n < 4; ++n) {
    EXPECT_EQ(row[2 + n], expected.at("counts").at(n).get<double>());
    EXPECT_EQ(row[6 + n], expected.at("totals").at(n).get<double>());
  }
}

TEST(Bleu, AgreesWithTheTestVectorsOfSacrebleu) {
  const std::string path = shared_data("sacrebleu-vectors/vectors.jsonl");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  std::map<std::string, int> compared;
  for (const std::string& line : read_lines(path)) {
    const json vector = read_json(line);
    const std::string kind = vector.at("metric");
    if (!kind.starts_with("BLEU")) continue;
    const Metric metric = metric_of("bleu", vector.at("params"));
    const BleuOptions& options = metric.options().bleu;
    ++compared[kind];
    if (kind == "BLEU-stats") {
      expect_counts(metric.count(vector.at("hyps"), vector.at("refs")).sums(), vector.at("expected"));
      continue;
    }
    const double score = kind == "BLEU-from-stats"
                             ? bleu_score(row_of(vector.at("stats")), options).score
                             : corpus_bleu(vector.at("hyps"), vector.at("refs"), options).score;
    EXPECT_NEAR(score, vector.at("sacrebleu_2.6.0").get<double>(), 1e-9) << line;
    EXPECT_NEAR(score, vector.at("expected").get<double>(), vector.at("tol").get<double>()) << line;
  }
  EXPECT_EQ(compared["BLEU"], 11);
  EXPECT_EQ(compared["BLEU-stats"], 1);
  EXPECT_EQ(compared["BLEU-from-stats"], 4);
  EXPECT_EQ(compared["BLEU-sentence"], 9);
}

TEST(Bleu, TokenizesRealLinesLikeSacrebleu) {
  const std::string path = shared_data("sacrebleu-vectors/tokenize.tsv");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  Lines lines = read_lines(path);
  lines.erase(lines.begin());
  BleuOptions international;
  international.tokenizer = BleuTokenizer::kInternational;
  for (const std::string& line : lines) {
    Lines fields = split(line, '\t');
    fields.resize(3);
    EXPECT_EQ(bleu_tokenize(fields[0], {}), fields[1]);
    EXPECT_EQ(bleu_tokenize(fields[0], international), fields[2]);
  }
}

TEST(Bleu, AgreesWithSacrebleuAndMtevalOnWmt17) {
  const std::string folder = shared_data("wmt17-en-de-systems/");
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  const Lines reference = read_lines(folder + "newstest2017.en-de.ref.de.gz");
  std::map<std::string, Lines> systems;
  int compared = 0;
  for (const std::string& line : read_lines(folder + "sacrebleu-2.6.0-computed.tsv")) {
    const Lines fields = split(line, '\t');
    // One system, the one with a byte order mark, keeps the test fast.
    if (!fields[1].starts_with("BLEU|") || fields[0].find("online-A") == std::string::npos) continue;
    BleuOptions options;
    for (const std::string& part : split(fields[1], '|')) {
      if (part.starts_with("case:")) options.lowercase = part == "case:lc";
      if (part.starts_with("tok:")) options.tokenizer = tokenizer_of(part.substr(4));
      if (part.starts_with("eff:")) options.effective_order = part == "eff:yes";
    }
    if (systems[fields[0]].empty()) systems[fields[0]] = read_lines(folder + fields[0] + ".de.gz");
    const BleuScore score = corpus_bleu(systems[fields[0]], {reference}, options);
    EXPECT_NEAR(score.score, std::stod(fields[2]), 1e-9) << line;
    ++compared;
  }
  EXPECT_GE(compared, 3);
  Lines expected = read_lines(folder + "expected.tsv");
  const Lines fields = split(expected.at(1), '\t');
  const BleuScore score = corpus_bleu(read_lines(folder + fields[0] + ".de.gz"), {reference}, {});
  EXPECT_NEAR(score.score, std::stod(fields[1]), 0.01);
}

TEST(Bleu, RefusesUnequalNumbersOfLinesAndMissingReferences) {
  try {
    corpus_bleu({"a", "b", "c"}, {{"a", "b", "c"}, {"a", "b"}}, {});
    FAIL() << "accepted";
  } catch (const DataError& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBadData);
    EXPECT_NE(std::string(error.what()).find("reference 2 has 2 lines"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("3 lines"), std::string::npos) << error.what();
  }
  EXPECT_THROW(corpus_bleu({"a"}, {}, {}), DataError);
}

TEST(Bleu, BytesThatAreNotUtf8SurviveTokenization) {
  const std::string odd = "a\xff\xc3( \xed\xa0\x80 \xf4\x90\x80\x80 \xc0\x80z";
  EXPECT_EQ(unicode::encode(unicode::decode(odd)), odd);
  BleuOptions options;
  options.tokenizer = BleuTokenizer::kNone;
  EXPECT_EQ(bleu_tokenize(odd, options), odd);
}

TEST(Bleu, LowersLikePython) {
  const auto lower = [](const std::string& text) {
    return unicode::encode(unicode::lower(unicode::decode(text)));
  };
  EXPECT_EQ(lower("ÄÖÜ STRASSE"), "äöü strasse");
  EXPECT_EQ(lower("ΟΔΥΣΣΕΥΣ"), "οδυσσευς");
  EXPECT_EQ(lower("Σ"), "σ");
  EXPECT_EQ(lower("ΑΣ. Α"), "ας. α");
  EXPECT_EQ(lower("İ"), "i̇");
  EXPECT_EQ(lower("ẞ"), "ß");
}

}  // namespace
}  // namespace ventris::data
