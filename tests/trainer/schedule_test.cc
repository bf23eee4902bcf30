// SPDX-License-Identifier: Apache-2.0
#include "trainer/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backend/error.h"
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

TEST(Schedule, HasItsPeakAtTheEndOfTheWarmUp) {
  const Schedule schedule{.scale = 2.5, .d_model = 128, .warmup = 2000};
  const double peak = 2.5 / std::sqrt(128.0 * 2000.0);
  EXPECT_NEAR(schedule.learning_rate(2000), peak, 1e-15);
  EXPECT_LT(schedule.learning_rate(1999), peak);
  EXPECT_LT(schedule.learning_rate(2001), peak);
  EXPECT_GT(schedule.learning_rate(1), 0.0);
}

TEST(Schedule, PresetsHaveTheSettingsOfTheDesign) {
  const TrainOptions base = preset_options("base");
  EXPECT_EQ(base.model.encoder_layers, 6);
  EXPECT_EQ(base.model.d_ff, 2048);
  EXPECT_EQ(base.batch_target_tokens, 25000);
  EXPECT_EQ(base.max_steps, 100000);
  EXPECT_EQ(base.beta2, 0.98F);
  const TrainOptions big = preset_options("big");
  EXPECT_EQ(big.model.d_model, 1024);
  EXPECT_EQ(big.model.heads, 16);
  EXPECT_EQ(big.max_steps, 300000);
  const TrainOptions tiny = preset_options("tiny");
  EXPECT_EQ(tiny.model.decoder_layers, 4);
  EXPECT_EQ(tiny.model.d_model, 128);
  EXPECT_EQ(tiny.model.d_ff, 256);
  EXPECT_EQ(tiny.warmup_steps, 2000);
  EXPECT_EQ(tiny.model.dropout, 0.3F);
  const TrainOptions small = preset_options("small");
  EXPECT_EQ(small.model.d_ff, 1024);
  EXPECT_EQ(small.model.heads, 4);
  EXPECT_EQ(small.batch_source_tokens, 4096);
  for (const TrainOptions& options : {base, big, tiny, small}) EXPECT_NO_THROW(options.model.validate());
}

TEST(Schedule, AnUnknownPresetIsRefusedByName) {
  try {
    preset_options("huge");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadConfiguration);
    EXPECT_NE(std::string(error.what()).find("huge"), std::string::npos);
  }
}

}  // namespace
}  // namespace ventris
