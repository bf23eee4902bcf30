// SPDX-License-Identifier: Apache-2.0
// train --valid-metric with --patience: when a run ends, and which checkpoint is the best.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/trainer/training_fixture.h"
#include "trainer/checkpoint/run_folder.h"

namespace ventris {
namespace {

using testing::LoadedState;
using testing::metrics_of;
using testing::TemporaryFolder;
using testing::train_alone;

class EarlyStopping : public ::testing::TestWithParam<std::string> {
 protected:
  TrainOptions options() const {
    TrainOptions options = testing::tiny_run_options(testing::tiny_corpus(), runs_ / "run");
    options.valid_metric = GetParam();
    options.valid_every = 2;
    options.max_steps = 400;
    options.patience = 3;
    return options;
  }
  static bool more_is_better() { return GetParam() == "bleu" || GetParam() == "chrf"; }

  TemporaryFolder runs_;
};

/// What does not depend on how the metric is computed, but on whether more of it is better.
class EarlyStoppingAcrossStarts : public EarlyStopping {};

TEST_P(EarlyStopping, EndsWhenPatienceIsOverAndKeepsTheBest) {
  TrainOptions run = options();
  // A learning rate that rises without end: the model learns, then forgets.
  run.warmup_steps = 4000;
  run.learning_rate_scale = more_is_better() ? 200.0 : 2000.0;
  const TrainResult result = train_alone(run);
  double best = 0.0;
  int64_t best_step = 0;
  int64_t last_step = 0;
  int improvements = 0;
  int without = 0;
  for (const auto& line : metrics_of(run, "valid_loss")) {
    EXPECT_LT(without, run.patience) << "went on at step " << last_step;
    last_step = line["step"];
    const double value = line["valid_" + GetParam()];
    const bool better = best_step == 0 || (more_is_better() ? value > best : value < best);
    without = better ? 0 : without + 1;
    if (!better) continue;
    ++improvements;
    best = value;
    best_step = last_step;
  }
  EXPECT_EQ(without, run.patience);
  EXPECT_LT(result.step, run.max_steps);
  EXPECT_EQ(result.step, last_step);
  EXPECT_GT(improvements, 1) << "the first validation is the best: the run tells nothing";
  EXPECT_EQ(result.best_step, best_step);
  EXPECT_DOUBLE_EQ(result.best_metric, best);
  EXPECT_EQ(read_best(run.model_dir), path_of_checkpoint(run.model_dir, best_step));
  const LoadedState kept(read_best(run.model_dir), run.model, testing::kTinyVocabulary);
  EXPECT_EQ(kept.state.step, best_step);
}

TEST_P(EarlyStopping, AnEqualValueIsNoBetter) {
  TrainOptions run = options();
  run.learning_rate_scale = 1e-30;  // nothing changes
  const TrainResult result = train_alone(run);
  EXPECT_EQ(result.step, 8);
  EXPECT_EQ(result.best_step, 2);
  EXPECT_EQ(read_best(run.model_dir), path_of_checkpoint(run.model_dir, 2));
}

TEST_P(EarlyStoppingAcrossStarts, AStartThatEndsBetweenValidationsChangesNothingLater) {
  TrainOptions run = options();
  run.warmup_steps = 4000;
  run.learning_rate_scale = more_is_better() ? 200.0 : 2000.0;
  run.model_dir = runs_ / "whole";
  const TrainResult whole = train_alone(run);
  const LoadedState end(whole.last_checkpoint, run.model, testing::kTinyVocabulary);
  EXPECT_EQ(end.state.best_due_step, whole.best_step);
  for (const int64_t step : {whole.best_step - 1, whole.best_step + 1, whole.step - 1}) {
    SCOPED_TRACE(step);
    TrainOptions parts = run;
    parts.model_dir = runs_ / fmt::format("parts-{}", step);
    parts.max_steps = step;
    const TrainResult first = train_alone(parts);
    EXPECT_EQ(metrics_of(parts, "valid_loss").back()["step"], step) << "the end is validated";
    EXPECT_EQ(LoadedState(first.last_checkpoint, run.model, testing::kTinyVocabulary).state.best_due_step % 2,
              0);
    parts.max_steps = run.max_steps;
    EXPECT_EQ(train_alone(parts).step, whole.step);
    const LoadedState again(path_of_checkpoint(parts.model_dir, whole.step), run.model,
                            testing::kTinyVocabulary);
    EXPECT_TRUE(again.values == end.values);
    EXPECT_EQ(again.state.best_due_step, end.state.best_due_step);
    EXPECT_EQ(again.state.best_due_metric, end.state.best_due_metric);
    EXPECT_EQ(again.state.validations_without_improvement, run.patience);
  }
}

INSTANTIATE_TEST_SUITE_P(Metrics, EarlyStopping, ::testing::Values("loss", "perplexity", "bleu", "chrf"),
                         [](const auto& metric) { return metric.param; });
INSTANTIATE_TEST_SUITE_P(Metrics, EarlyStoppingAcrossStarts, ::testing::Values("loss", "bleu"),
                         [](const auto& metric) { return metric.param; });

}  // namespace
}  // namespace ventris
