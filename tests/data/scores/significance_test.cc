// SPDX-License-Identifier: Apache-2.0
#include "data/scores/significance.h"

#include <nlohmann/json.hpp>

#include "data/error.h"
#include "score_cases.h"

namespace ventris::data {
namespace {

using nlohmann::json;

constexpr uint64_t kTrialSeed = 12345;

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
