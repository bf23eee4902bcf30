// SPDX-License-Identifier: Apache-2.0
#include "trainer/observers/progress.h"

#include <gtest/gtest.h>

#include "trainer/train_options.h"

namespace ventris {
namespace {

// 50 steps in 10 seconds, 0.5 epochs: 5 steps or 0.05 epochs a second.
constexpr RunProgress kRun{.first_step = 100, .step = 150, .first_epoch = 1.0, .epoch = 1.5, .seconds = 10.0};

TEST(SecondsLeft, AreThoseToTheNearestEnd) {
  TrainOptions options;
  options.max_steps = 250;
  options.max_epochs = 0;
  options.max_minutes = 0.0;
  EXPECT_DOUBLE_EQ(seconds_left(options, kRun), 20.0);
  options.max_epochs = 2;
  EXPECT_DOUBLE_EQ(seconds_left(options, kRun), 10.0);
  options.max_epochs = 3;
  EXPECT_DOUBLE_EQ(seconds_left(options, kRun), 20.0);
  options.max_minutes = 0.25;
  EXPECT_DOUBLE_EQ(seconds_left(options, kRun), 5.0);
}

TEST(SecondsLeft, NeedNoStepYet) {
  TrainOptions options;
  options.max_steps = 250;
  options.max_epochs = 2;
  options.max_minutes = 1.0;
  const RunProgress run{.first_step = 150, .step = 150, .first_epoch = 1.5, .epoch = 1.5, .seconds = 0.1};
  EXPECT_DOUBLE_EQ(seconds_left(options, run), 10.0);
}

TEST(Progress, ALogIsNeverSilentForLong) {
  TrainOptions options;
  options.max_steps = 250;
  for (const bool is_first : {true, false}) {
    ::testing::internal::CaptureStderr();
    Progress eager(is_first, options, 0.0);
    EXPECT_EQ(eager.wants_line(), is_first);
    eager.heartbeat(7, "validating");
    Progress patient(is_first, options, 1e6);
    EXPECT_FALSE(patient.wants_line());
    patient.heartbeat(8, "validating");
    const std::string text = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(text.find("  step 7/250  validating\n") != std::string::npos, is_first) << text;
    EXPECT_EQ(text.find("step 8"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace ventris
