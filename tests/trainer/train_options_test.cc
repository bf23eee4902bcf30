// SPDX-License-Identifier: Apache-2.0
#include "trainer/train_options.h"

#include <gtest/gtest.h>

namespace ventris {
namespace {

void expect_shape(const TrainOptions& options, int layers, int d_model, int d_ff, int heads, float dropout) {
  EXPECT_EQ(options.model.encoder_layers, layers) << options.preset;
  EXPECT_EQ(options.model.decoder_layers, layers) << options.preset;
  EXPECT_EQ(options.model.d_model, d_model) << options.preset;
  EXPECT_EQ(options.model.d_ff, d_ff) << options.preset;
  EXPECT_EQ(options.model.heads, heads) << options.preset;
  EXPECT_EQ(options.model.dropout, dropout) << options.preset;
}

TEST(Preset, BaseAndBigAreThoseOfThePaper) {
  const TrainOptions base = preset_options("base");
  expect_shape(base, 6, 512, 2048, 8, 0.1F);
  EXPECT_EQ(base.max_steps, 100000);
  EXPECT_EQ(base.warmup_steps, 4000);
  EXPECT_EQ(base.batch_source_tokens, 25000);
  EXPECT_EQ(base.batch_target_tokens, 25000);
  EXPECT_EQ(base.beta1, 0.9F);
  EXPECT_EQ(base.beta2, 0.98F);
  EXPECT_EQ(base.adam_epsilon, 1e-9F);
  const TrainOptions big = preset_options("big");
  expect_shape(big, 6, 1024, 4096, 16, 0.3F);
  EXPECT_EQ(big.max_steps, 300000);
  EXPECT_EQ(big.keep_checkpoints, 20);
  EXPECT_EQ(big.warmup_steps, base.warmup_steps);
}

}  // namespace
}  // namespace ventris
