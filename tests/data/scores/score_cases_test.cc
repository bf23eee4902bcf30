// SPDX-License-Identifier: Apache-2.0
// Random corpora against sacreBLEU; tests/golden/scores.py made the file and tells how to make a larger one.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "data/io/json_text.h"
#include "data/scores/significance.h"
#include "score_cases.h"

namespace ventris::data {
namespace {

using nlohmann::json;

constexpr double kTolerance = 1e-9;
constexpr uint64_t kSeed = 12345;

std::ifstream open_cases() {
  const char* path = std::getenv("VENTRIS_SCORE_CASES");
  return std::ifstream(path != nullptr ? std::string(path)
                                       : testing::source_dir() + "/tests/golden/scores.jsonl");
}

bool near(double x, double y) {
  return std::abs(x - y) <= kTolerance;
}

/// Compares with [score, p-value, mean, interval] of one system, null for what a test does not give.
bool agrees(const PairedResult& result, const json& expected) {
  if (!near(result.score, expected.at(0))) return false;
  if (result.p_value.has_value() == expected.at(1).is_null()) return false;
  if (result.p_value && !near(*result.p_value, expected.at(1))) return false;
  if (result.estimate.has_value() == expected.at(2).is_null()) return false;
  return !result.estimate ||
         (near(result.estimate->mean, expected.at(2)) && near(result.estimate->half_width, expected.at(3)));
}

TEST(ScoreCases, ScoresOfRandomCorporaAreThoseOfSacrebleuForAllOptions) {
  std::ifstream file = open_cases();
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  const json head = read_json(line);
  int64_t corpora = 0;
  int64_t cases = 0;
  while (std::getline(file, line)) {
    const json corpus = read_json(line);
    const Lines hypotheses = corpus.at("systems").at(0);
    const std::vector<Lines> references = corpus.at("references");
    for (const char* name : {"bleu", "chrf"}) {
      const json& options = head.at(name);
      const json& expected = corpus.at(name);
      ASSERT_EQ(options.size(), expected.size());
      for (size_t i = 0; i < options.size(); ++i) {
        const double score = corpus_score(metric_of(name, options[i]), hypotheses, references);
        EXPECT_NEAR(score, expected[i].get<double>(), kTolerance)
            << name << " " << options[i] << "\ncorpus " << corpora << " " << corpus.at("systems").at(0)
            << "\n"
            << corpus.at("references");
        ++cases;
      }
    }
    ++corpora;
  }
  RecordProperty("corpora", std::to_string(corpora));
  RecordProperty("cases", std::to_string(cases));
  EXPECT_GE(corpora, 20);
}

TEST(ScoreCases, IntervalsAndPairedTestsAreThoseOfSacrebleu) {
  std::ifstream file = open_cases();
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  const json head = read_json(line);
  const int64_t resamples = head.at("resamples");
  int64_t corpora = 0;
  int64_t cases = 0;
  while (std::getline(file, line)) {
    const json corpus = read_json(line);
    const std::vector<Lines> references = corpus.at("references");
    for (const json& test : corpus.at("tests")) {
      const std::string name = test.at(0);
      const json& options = head.at(name).at(test.at(1).get<size_t>());
      const Metric metric = metric_of(name, options);
      std::vector<Statistics> systems;
      for (const Lines& hypotheses : corpus.at("systems").get<std::vector<Lines>>())
        systems.push_back(metric.count(hypotheses, references));
      const std::string where = name + " " + json_text(options) + " corpus " + std::to_string(corpora);
      if (!test.at(2).is_null()) {
        const Estimate estimate = bootstrap_estimate(metric, systems[0], resamples, kSeed);
        EXPECT_NEAR(estimate.mean, test.at(2).at(0).get<double>(), kTolerance) << where;
        EXPECT_NEAR(estimate.half_width, test.at(2).at(1).get<double>(), kTolerance) << where;
        ++cases;
      }
      const auto by_bootstrap = paired_bootstrap(metric, systems, resamples, kSeed);
      const auto by_randomization = paired_randomization(metric, systems, resamples, kSeed);
      for (size_t s = 0; s < systems.size(); ++s) {
        EXPECT_TRUE(agrees(by_bootstrap[s], test.at(3).at(s)))
            << "bootstrap of system " << s << ", " << where;
        EXPECT_TRUE(agrees(by_randomization[s], test.at(4).at(s)))
            << "randomization of system " << s << ", " << where;
        cases += 2;
      }
    }
    ++corpora;
  }
  RecordProperty("corpora", std::to_string(corpora));
  RecordProperty("cases", std::to_string(cases));
  EXPECT_GE(cases, 20);
}

}  // namespace
}  // namespace ventris::data
