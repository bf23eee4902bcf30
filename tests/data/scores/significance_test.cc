// SPDX-License-Identifier: Apache-2.0
#include "data/scores/significance.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "data/error.h"
#include "data/scores/numpy_random.h"
#include "score_cases.h"

namespace ventris::data {
namespace {

using nlohmann::json;

constexpr uint64_t kTrialSeed = 12345;

TEST(NumpyRandom, DrawsTheNumbersOfNumpy) {
  // numpy.random.default_rng(seed).bit_generator.random_raw(3)
  for (const auto& [seed, expected] : std::vector<std::pair<uint64_t, std::vector<uint64_t>>>{
           {12345, {4193609425186963869u, 5843160025838961886u, 14708796524633321433u}},
           {0, {11749869230777074271u, 4976686463289251617u, 755828109848996024u}},
           {7, {11530976094092348043u, 16550673365885938325u, 14308875409591826786u}},
           {1099511627779, {14271435802380633900u, 18370326226487632705u, 8728610338774297736u}}}) {
    NumpyRandom random(seed);
    for (const uint64_t number : expected) EXPECT_EQ(random.next64(), number) << seed;
  }
  // numpy.random.default_rng(12345).integers(n, size=6)
  for (const auto& [n, expected] : std::vector<std::pair<uint32_t, std::vector<uint32_t>>>{
           {1u, {0u, 0u, 0u, 0u, 0u, 0u}},
           {2u, {1u, 0u, 1u, 0u, 0u, 1u}},
           {3u, {2u, 0u, 2u, 0u, 0u, 2u}},
           {3004u, {2100u, 682u, 2369u, 951u, 613u, 2395u}},
           {4000000000u, {2796860125u, 909344089u, 3154587952u, 1267033358u, 816707574u, 3189461829u}}}) {
    NumpyRandom random(kTrialSeed);
    for (const uint32_t number : expected) EXPECT_EQ(random.below(n), number) << n;
  }
}

struct Wmt17 {
  std::string folder = shared_data("wmt17-en-de-systems/");
  std::vector<Lines> rows;  // of expected.tsv; the first system is the baseline
  std::vector<Lines> references;

  bool exists() const { return std::filesystem::exists(folder); }
  void read() {
    for (const std::string& line : read_lines(folder + "expected.tsv")) rows.push_back(split(line, '\t'));
    rows.erase(rows.begin());
    references = {read_lines(folder + "newstest2017.en-de.ref.de.gz")};
  }
  Statistics count(const Metric& metric, size_t system) const {
    return metric.count(read_lines(folder + rows[system][0] + ".de.gz"), references);
  }
};

TEST(Significance, BootstrapAgreesWithMosesOnWmt17) {
  Wmt17 data;
  if (!data.exists()) GTEST_SKIP() << "no " << data.folder;
  data.read();
  const Metric metric = metric_of("bleu", {{"tokenize", "none"}});
  std::vector<Statistics> systems;
  for (size_t s = 0; s < data.rows.size(); ++s) systems.push_back(data.count(metric, s));
  const std::vector<PairedResult> results = paired_bootstrap(metric, systems, 1000, kTrialSeed);
  EXPECT_FALSE(results[0].p_value.has_value());
  for (size_t s = 1; s < results.size(); ++s)
    EXPECT_NEAR(*results[s].p_value, std::stod(data.rows[s][6]), 0.01) << data.rows[s][0];
}

TEST(Significance, RandomizationAgreesWithMultevalOnWmt17) {
  Wmt17 data;
  if (!data.exists()) GTEST_SKIP() << "no " << data.folder;
  data.read();
  const Metric metric = metric_of("bleu", {{"tokenize", "none"}});
  constexpr size_t kClosest = 6;
  const std::vector<Statistics> systems = {data.count(metric, 0), data.count(metric, kClosest)};
  const std::vector<PairedResult> results = paired_randomization(metric, systems, 10000, kTrialSeed);
  EXPECT_NEAR(*results[1].p_value, std::stod(data.rows[kClosest][7]), 0.01);
  EXPECT_FALSE(results[1].estimate.has_value());
}

TEST(Significance, ASystemDoesNotDifferFromItself) {
  const Metric metric = metric_of("bleu", json::object());
  const Statistics statistics =
      metric.count({"a b c d e f", "the cat sat on the mat"}, {{"a b c d f", "the cat sat on a mat"}});
  const std::vector<Statistics> systems = {statistics, statistics};
  // No difference is above zero.
  EXPECT_EQ(*paired_bootstrap(metric, systems, 99, kTrialSeed)[1].p_value, 0.01);
  EXPECT_EQ(*paired_randomization(metric, systems, 99, kTrialSeed)[1].p_value, 0.01);
}

TEST(Significance, AnotherSeedGivesAnotherEstimateOfTheSameScore) {
  const Metric metric = metric_of("chrf", json::object());
  const Statistics statistics =
      metric.count({"abcdef", "the cat", "xyz", "mat"}, {{"abcdeg", "the dog", "xyw", "rat"}});
  const Estimate a = bootstrap_estimate(metric, statistics, 500, 1);
  const Estimate b = bootstrap_estimate(metric, statistics, 500, 2);
  EXPECT_NE(a.mean, b.mean);
  EXPECT_NEAR(a.mean, b.mean, 5.0);
  EXPECT_EQ(a.mean, bootstrap_estimate(metric, statistics, 500, 1).mean);
}

TEST(Significance, RefusesNoSentencesAndUnequalSystems) {
  const Metric metric = metric_of("bleu", json::object());
  const Statistics one = metric.count({"a"}, {{"a"}});
  const Statistics two = metric.count({"a", "b"}, {{"a", "b"}});
  EXPECT_THROW(bootstrap_estimate(metric, Statistics{}, 10, kTrialSeed), DataError);
  const std::vector<Statistics> systems = {one, two};
  EXPECT_THROW(paired_bootstrap(metric, systems, 10, kTrialSeed), DataError);
  EXPECT_THROW(paired_randomization(metric, systems, 10, kTrialSeed), DataError);
}

}  // namespace
}  // namespace ventris::data
