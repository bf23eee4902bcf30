// SPDX-License-Identifier: Apache-2.0
#include "trainer/schedule.h"

#include <gtest/gtest.h>

#include "backend/device/error.h"
#include "trainer/train_options.h"

namespace ventris {
namespace {

TEST(Schedule, RisesLinearlyToThePeakAndFallsWithTheInverseSquareRoot) {
  const Schedule schedule{.scale = 1.0, .d_model = 512, .warmup = 4000};
  EXPECT_NEAR(schedule.learning_rate(1), 1.746928107e-07, 1e-15);
  EXPECT_NEAR(schedule.learning_rate(2000), 3.493856214e-04, 1e-12);
  EXPECT_NEAR(schedule.learning_rate(4000), 6.987712430e-04, 1e-12);
  EXPECT_NEAR(schedule.learning_rate(16000), 3.493856215e-04, 1e-12);
  EXPECT_NEAR(schedule.learning_rate(100000), 1.397542486e-04, 1e-12);
}

}  // namespace
}  // namespace ventris
