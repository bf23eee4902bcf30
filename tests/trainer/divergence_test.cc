// SPDX-License-Identifier: Apache-2.0
#include "trainer/divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "backend/error.h"

namespace ventris {
namespace {

constexpr int64_t kMax = DivergenceWatch::kMaxSkippedInARow;
const SpikeOptions kIgnore;
const SpikeOptions kRollback = {.on = "rollback", .factor = 1.5, .rollback_rate = 0.25, .max_rollbacks = 2};

/// Counts finite steps after that of the state.
void count(DivergenceWatch& watch, TrainingState& state, const std::vector<double>& losses) {
  for (const double loss : losses) watch.count_finite_step(++state.step, loss);
}

TEST(DivergenceWatch, AFiniteStepBeginsTheCountAnew) {
  TrainingState state;
  DivergenceWatch watch(state, kIgnore);
  for (int64_t step = 1; step < kMax; ++step) watch.count_skipped_step(step, "the loss");
  EXPECT_FALSE(watch.has_diverged());
  watch.count_finite_step(kMax, 5.0);
  for (int64_t step = kMax + 1; step < 2 * kMax; ++step) watch.count_skipped_step(step, "the gradients");
  EXPECT_FALSE(watch.has_diverged());
  EXPECT_EQ(state.skipped_steps, 2 * (kMax - 1));
  EXPECT_EQ(state.skipped_in_a_row, kMax - 1);
  EXPECT_EQ(watch.first_seen(), "the gradients at step 11");
}

TEST(DivergenceWatch, TooManyInARowEndTrainingWithTheFirstPlace) {
  TrainingState state;
  DivergenceWatch watch(state, kIgnore);
  for (int64_t step = 5; step < 5 + kMax; ++step) {
    EXPECT_FALSE(watch.has_diverged()) << step;
    watch.count_skipped_step(step, step == 5 ? "the loss" : "encoder/layers/0");
  }
  ASSERT_TRUE(watch.has_diverged());
  for (const char* checkpoint : {"", "run/checkpoint-00000004.h5"}) {
    try {
      watch.fail(checkpoint);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kDiverged);
      const std::string message = error.what();
      EXPECT_NE(message.find("in 10 steps in a row, first seen in the loss at step 5. "), std::string::npos);
      EXPECT_NE(message.find(*checkpoint == '\0' ? "No checkpoint was saved"
                                                 : "The last checkpoint is run/checkpoint-00000004.h5"),
                std::string::npos);
    }
  }
}

TEST(DivergenceWatch, GoesOnWithTheCountsOfARun) {
  TrainingState state;
  state.skipped_steps = 20;
  state.skipped_in_a_row = kMax - 1;
  DivergenceWatch watch(state, kIgnore);
  EXPECT_FALSE(watch.has_diverged());
  watch.count_skipped_step(40, "the loss");
  EXPECT_TRUE(watch.has_diverged());
  EXPECT_EQ(state.skipped_steps, 21);
  EXPECT_EQ(watch.first_seen(), "the loss at step 40");
}

TEST(DivergenceWatch, ASpikeIsARowOfStepsAboveTheMeanBefore) {
  TrainingState state;
  DivergenceWatch watch(state, kRollback);
  count(watch, state, std::vector<double>(40, 2.0));
  count(watch, state, std::vector<double>(50, 3.0));  // exactly the limit, which rises with them
  EXPECT_FALSE(watch.goes_back());
  count(watch, state, std::vector<double>(4, 9.0));
  EXPECT_FALSE(watch.goes_back());
  count(watch, state, {2.5});
  count(watch, state, std::vector<double>(4, 9.0));
  EXPECT_FALSE(watch.goes_back()) << "the row was broken";
  const double sum = state.spike_sum;
  count(watch, state, {7.0});
  EXPECT_TRUE(watch.goes_back());
  EXPECT_EQ(state.spike_sum, sum) << "steps of a spike are not in the mean";
  const Rollback rollback = watch.rollback();
  EXPECT_EQ(rollback.from_step, state.step);
  EXPECT_EQ(rollback.begin, state.step - 4);
  EXPECT_EQ(rollback.rate, 0.25);
  EXPECT_TRUE(rollback.pending);
  EXPECT_NE(rollback.what.find("in 5 steps in a row from step 96 on, and 7 in the last of them"),
            std::string::npos)
      << rollback.what;
}

TEST(DivergenceWatch, AFallingLossAndTheFirstStepsAreNoSpike) {
  TrainingState state;
  DivergenceWatch watch(state, kRollback);
  count(watch, state, {1.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0});
  EXPECT_FALSE(watch.has_diverged());
  for (int i = 0; i < 500; ++i)
    count(watch, state, {2.0 + 8.0 * std::exp(-i / 50.0) * (1.0 + 0.3 * (i % 2))});
  EXPECT_FALSE(watch.has_diverged());
  EXPECT_EQ(state.spike_steps, 0);
}

TEST(DivergenceWatch, IgnoredSpikesLeaveNothingInTheState) {
  TrainingState state;
  DivergenceWatch watch(state, kIgnore);
  count(watch, state, std::vector<double>(40, 2.0));
  count(watch, state, std::vector<double>(40, 90.0));
  EXPECT_FALSE(watch.has_diverged());
  EXPECT_EQ(state.spike_sum, 0.0);
  EXPECT_EQ(state.spike_weight, 0.0);
  EXPECT_EQ(state.spike_steps, 0);
}

TEST(DivergenceWatch, TheStateHasAllOfASpike) {
  TrainingState state;
  {
    DivergenceWatch watch(state, kRollback);
    count(watch, state, std::vector<double>(30, 2.0));
    count(watch, state, std::vector<double>(3, 9.0));
  }
  TrainingState resumed = state;
  DivergenceWatch watch(resumed, kRollback);
  count(watch, resumed, {9.0});
  EXPECT_FALSE(watch.has_diverged());
  count(watch, resumed, {9.0});
  EXPECT_TRUE(watch.has_diverged());
  EXPECT_EQ(watch.rollback().begin, 31);
}

TEST(DivergenceWatch, StepsWithNaNGoBackToBeforeTheirFirst) {
  TrainingState state;
  DivergenceWatch watch(state, kRollback);
  count(watch, state, std::vector<double>(30, 2.0));
  count(watch, state, std::vector<double>(2, 9.0));
  for (int64_t i = 0; i < kMax; ++i) watch.count_skipped_step(++state.step, "the loss");
  EXPECT_TRUE(watch.goes_back());
  EXPECT_EQ(watch.rollback().begin, 31);  // the loss had risen before
  const SpikeOptions stop = {.on = "stop", .factor = 1.5, .rollback_rate = 0.25, .max_rollbacks = 2};
  EXPECT_TRUE(DivergenceWatch(state, stop).has_diverged());
  EXPECT_FALSE(DivergenceWatch(state, stop).goes_back());
}

}  // namespace
}  // namespace ventris
