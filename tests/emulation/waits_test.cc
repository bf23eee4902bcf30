// SPDX-License-Identifier: Apache-2.0
// What the host waits for in training, which only the emulated device can count.
#include <gtest/gtest.h>

#include "tests/emulation/controls.h"
#include "tests/support/tiny_run.h"

namespace ventris {
namespace {

using testing::TemporaryFolder;

TEST(CudaWaits, BetweenTheLinesOfTheLogTheHostNeverWaitsUntilTheDeviceIsIdle) {
  const TemporaryFolder folder;
  const std::string corpus = testing::make_tiny_corpus(folder);
  const auto waits_of = [&](int64_t steps, int64_t log_every) {
    TrainOptions run =
        testing::tiny_run_options(corpus, folder / (std::to_string(steps) + "-" + std::to_string(log_every)));
    run.model.encoder_layers = run.model.decoder_layers = 1;
    run.batch_source_tokens = run.batch_target_tokens = 48;
    run.logical_shards = 1;
    run.max_steps = steps;
    run.log_every = log_every;
    Context context({.device = Device::kCuda, .scratch_bytes = size_t{1} << 20});
    const auto self = make_self_communicator();
    const uint64_t before = emulation::idle_waits();
    train(context, *self, run, "test");
    return emulation::idle_waits() - before;
  };
  const uint64_t few = waits_of(4, 1000);
  EXPECT_EQ(waits_of(7, 1000), few);
  EXPECT_EQ(waits_of(7, 3), few + 2);  // after steps 3 and 6; the end waits in any case
}

}  // namespace
}  // namespace ventris
