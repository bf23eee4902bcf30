// SPDX-License-Identifier: Apache-2.0
#include "trainer/divergence.h"

#include <gtest/gtest.h>

#include "backend/device/error.h"

namespace ventris {
namespace {

constexpr int64_t kMax = DivergenceWatch::kMaxSkippedInARow;

TEST(DivergenceWatch, AFiniteStepBeginsTheCountAnew) {
  TrainingState state;
  DivergenceWatch watch(state);
  for (int64_t step = 1; step < kMax; ++step) watch.count_skipped_step(step, "the loss");
  EXPECT_FALSE(watch.has_diverged());
  watch.count_finite_step();
  for (int64_t step = kMax + 1; step < 2 * kMax; ++step) watch.count_skipped_step(step, "the gradients");
  EXPECT_FALSE(watch.has_diverged());
  EXPECT_EQ(state.skipped_steps, 2 * (kMax - 1));
  EXPECT_EQ(state.skipped_in_a_row, kMax - 1);
  EXPECT_EQ(watch.first_seen(), "the gradients at step 11");
}

TEST(DivergenceWatch, TooManyInARowEndTrainingWithTheFirstPlace) {
  TrainingState state;
  DivergenceWatch watch(state);
  for (int64_t step = 5; step < 5 + kMax; ++step) {
    EXPECT_FALSE(watch.has_diverged()) << step;
    watch.count_skipped_step(step, step == 5 ? "the loss" : "encoder/layers/0");
  }
  ASSERT_TRUE(watch.has_diverged());
  TrainOptions noam;
  noam.learning_rate_scale = 2.5;
  TrainOptions constant;
  constant.schedule = {.kind = ScheduleKind::kConstant, .peak = 3e-4};
  for (const bool saved : {false, true}) {
    try {
      watch.fail(saved ? "run/checkpoint-00000004.h5" : "", saved ? noam : constant);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kDiverged);
      const std::string message = error.what();
      EXPECT_NE(message.find("in 10 steps in a row, first seen in the loss at step 5. "), std::string::npos);
      EXPECT_NE(
          message.find(saved ? "run/checkpoint-00000004.h5: start again from it with half of the learning "
                               "rate, --learning-rate-scale 1.25;"
                             : "No checkpoint was saved: start again with half of the learning rate, "
                               "--peak-learning-rate 0.00015;"),
          std::string::npos)
          << message;
    }
  }
}

}  // namespace
}  // namespace ventris
