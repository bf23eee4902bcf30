// SPDX-License-Identifier: Apache-2.0
// train --ema and the choice of the best checkpoint.
#include <gtest/gtest.h>

#include "backend/ops/moving_average.h"
#include "tests/trainer/training_fixture.h"
#include "trainer/checkpoint/run_folder.h"
#include "trainer/checkpoint/weights.h"

namespace ventris {
namespace {

using testing::kTinyVocabulary;
using testing::LoadedState;
using testing::make_tiny_corpus;
using testing::TemporaryFolder;
using testing::train_alone;

/// What translation takes from a file or run folder.
std::vector<float> translated_with(const std::string& model) {
  Context context(ContextOptions{});
  const auto loaded = load_model(context, model, DType::kF32);
  const float* values = loaded->store.values().as<float>();
  return {values, values + loaded->store.flat_size()};
}

class AverageOfTraining : public ::testing::Test {
 protected:
  AverageOfTraining() : corpus_(make_tiny_corpus(folder_)) {}

  TrainOptions options(const std::string& name, double ema) const {
    TrainOptions options = testing::tiny_run_options(corpus_, folder_ / name);
    options.ema = ema;
    options.save_every = 1;
    options.keep_checkpoints = 100;
    options.valid_beam_size = 0;
    options.valid_metric = "loss";
    return options;
  }
  std::vector<float> values(const TrainOptions& options, int64_t step) const {
    return LoadedState(path_of_checkpoint(options.model_dir, step), options.model, kTinyVocabulary).values;
  }
  std::vector<float> average(const TrainOptions& options, int64_t step) const {
    return translated_with(path_of_checkpoint(options.model_dir, step));
  }

  TemporaryFolder folder_;
  std::string corpus_;
};

TEST_F(AverageOfTraining, FollowsTheParametersStepByStepAndLeavesThemAlone) {
  const TrainOptions without = options("without", 0.0);
  const TrainOptions with = options("with", 0.5);
  train_alone(without);
  train_alone(with);
  std::vector<float> expected = average(with, 1);
  for (int64_t step = 2; step <= 12; ++step) {
    const std::vector<float> now = values(with, step);
    EXPECT_EQ(now, values(without, step));
    EXPECT_EQ(now, average(without, step)) << "without an average the parameters are translated with";
    const auto share = static_cast<float>(moving_average_share(0.5, step));
    const std::vector<float> got = average(with, step);
    for (size_t i = 0; i < got.size(); ++i) {
      expected[i] += share * (now[i] - expected[i]);
      ASSERT_NEAR(got[i], expected[i], 1e-5F) << "step " << step << ", element " << i;
    }
    EXPECT_NE(got, now);
  }
}

TEST_F(AverageOfTraining, IsThatOfBf16TrainingToo) {
  TrainOptions run = options("run", 0.9);
  run.precision = Precision::kBF16;
  run.valid_every = 3;
  train_alone(run);
  TrainOptions plain = options("plain", 0.0);
  plain.precision = Precision::kBF16;
  train_alone(plain);
  EXPECT_EQ(values(run, 12), values(plain, 12)) << "validation leaves the rounded copies as they were";
}

}  // namespace
}  // namespace ventris
