// SPDX-License-Identifier: Apache-2.0
// Training on a corpus whose pairs have weights.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/weighted_corpus.h"
#include "tests/trainer/training_fixture.h"

namespace ventris {
namespace {

using testing::kTinyVocabulary;
using testing::LoadedState;

class WeightedPairs : public ::testing::Test {
 protected:
  TrainOptions options(const std::string& name, const std::string& corpus, int64_t steps) const {
    TrainOptions run = testing::tiny_run_options(corpus, folder_ / name);
    run.max_steps = steps;
    return run;
  }
  std::string with_weights(float weight) const {
    return testing::write_weighted_corpus(testing::tiny_corpus(), folder_ / (std::to_string(weight) + ".h5"),
                                          [=](int64_t) { return weight; });
  }
  static std::vector<double> numbers(const TrainOptions& run, const std::string& key) {
    std::vector<double> found;
    for (const nlohmann::json& line : testing::metrics_of(run, key)) found.push_back(line[key]);
    return found;
  }

  testing::TemporaryFolder folder_;
};

TEST_F(WeightedPairs, OfWeightOneGiveTheBitsOfPairsWithout) {
  const TrainOptions plain = options("plain", testing::tiny_corpus(), 8);
  const TrainOptions ones = options("ones", with_weights(1.0F), 8);
  const LoadedState expected(testing::train_alone(plain).last_checkpoint, plain.model, kTinyVocabulary);
  const LoadedState got(testing::train_alone(ones).last_checkpoint, ones.model, kTinyVocabulary);
  EXPECT_TRUE(got.values == expected.values);
  EXPECT_TRUE(got.m == expected.m);
  EXPECT_TRUE(got.v == expected.v);
  for (const char* key : {"loss", "nll", "gradient_norm"}) EXPECT_EQ(numbers(ones, key), numbers(plain, key));
}

/// The first step of both runs begins with the same parameters.
TEST_F(WeightedPairs, OfWeightTwoDoubleLossAndGradientButNotTheLossOfValidation) {
  TrainOptions plain = options("plain", testing::tiny_corpus(), 1);
  plain.learning_rate_scale = 1e-20;  // a step changes no matrix
  plain.valid_every = 1;
  plain.valid_beam_size = 0;
  plain.valid_metric = "loss";
  TrainOptions twice = plain;
  twice.corpus = with_weights(2.0F);
  twice.model_dir = folder_ / "twice";
  testing::train_alone(plain);
  testing::train_alone(twice);
  for (const char* key : {"loss", "nll", "gradient_norm"}) {
    ASSERT_EQ(numbers(plain, key).size(), 1U) << key;
    EXPECT_EQ(numbers(twice, key).at(0), 2 * numbers(plain, key).at(0)) << key;
  }
  ASSERT_EQ(numbers(plain, "valid_loss").size(), 1U);
  EXPECT_NEAR(numbers(twice, "valid_loss").at(0), numbers(plain, "valid_loss").at(0), 1e-6);
  const std::vector<double> tokens = numbers(plain, "target_tokens");
  EXPECT_EQ(numbers(twice, "target_tokens"), tokens);
}

}  // namespace
}  // namespace ventris
