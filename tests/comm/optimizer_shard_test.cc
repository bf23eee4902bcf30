// SPDX-License-Identifier: Apache-2.0
#include "trainer/optimizer_shard.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/device/context.h"
#include "model/transformer_parameters.h"
#include "tests/comm/rank_test.h"
#include "tests/support/tiny_run.h"
#include "trainer/optimizer.h"

namespace ventris {
namespace {

using testing::world;

/// A model of some 300,000 elements, 20 units of a share, with an optimizer of this rank or of all elements.
struct Updates {
  Updates(TrainOptions options, bool shared) {
    options.shard_optimizer = shared;
    TransformerConfig config;
    config.encoder_layers = config.decoder_layers = 2;
    config.d_model = 96;
    config.d_ff = 128;
    config.heads = 2;
    config.vocab_size = 60;
    declare_transformer(config, store);
    store.allocate(Device::kCpu, dtype_of(options.precision), /*gradients=*/true);
    store.initialize(context, 1);
    store.refresh_compute_copy(context);
    optimizer.emplace(context, store, options, world().rank(), world().size());
    optimizer->start_average();
    optimizer->set_learning_rate(0.01);
  }

  /// With the gradients of a step on the elements of this rank, and nonsense on all others.
  StepReport update(int step, float worst = 1.0F) {
    auto* gradients = store.gradients().as<float>();
    for (int64_t i = 0; i < store.flat_size(); ++i) gradients[i] = 1e6F;
    for (const auto& [elements, packed] : optimizer->shard().ranges()) {
      for (int64_t i = elements.begin; i < elements.end; ++i)
        gradients[i] = static_cast<float>((i * 31 + step * 17) % 1009 - 504) / 777.0F;
      if (elements.end == store.flat_size()) gradients[elements.end - 1] = worst;
    }
    double losses[2] = {1.0, 1.0};
    const auto self = make_self_communicator();
    optimizer->update({losses, 1, 2, 2, DType::kF64}, optimizer->shard().is_part() ? world() : *self);
    StepReport report;
    HostBuffer buffer(context, sizeof(report));
    optimizer->receive_report(buffer);
    std::memcpy(&report, buffer.data(), sizeof(report));
    return report;
  }

  Context context{{.threads = 1}};
  ParameterStore store;
  std::optional<Optimizer> optimizer;
};

std::string bytes_of(ConstTensor flat) {
  return {static_cast<const char*>(flat.data), static_cast<size_t>(flat.cols) * size_of(flat.dtype)};
}

class SharedUpdates : public ::testing::TestWithParam<Precision> {
 protected:
  static TrainOptions options() {
    TrainOptions options;
    options.precision = GetParam();
    options.clip_norm = 0.5;
    options.ema = 0.9;
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Precisions, SharedUpdates, ::testing::Values(Precision::kF32, Precision::kBF16));

/// cli.shard_optimizer_test compares the state and its way to checkpoints and back.
TEST_P(SharedUpdates, HaveTheBitsOfOneRankThatUpdatesAll) {
  Updates shared(options(), true);
  Updates alone(options(), false);
  for (int step = 1; step <= 3; ++step) {
    EXPECT_EQ(shared.update(step).outcome.gradient_norm, alone.update(step).outcome.gradient_norm);
    if (GetParam() == Precision::kBF16) {
      EXPECT_TRUE(bytes_of(shared.store.compute_copy()) == bytes_of(alone.store.compute_copy()));
    }
  }
  shared.optimizer->shard().share_masters(world());
  EXPECT_TRUE(bytes_of(shared.store.values()) == bytes_of(alone.store.values()));
}

TEST_P(SharedUpdates, SkipOnEveryRankWhatIsNotFiniteOnOne) {
  Updates shared(options(), true);
  shared.update(1);
  const std::string before = bytes_of(shared.store.values());
  const StepReport report = shared.update(2, std::numeric_limits<float>::infinity());
  EXPECT_EQ(report.outcome.skipped, 1);
  EXPECT_EQ(report.outcome.updates, 1);
  EXPECT_EQ(places_on_all_ranks(world(), report.not_finite).last_gradient, shared.store.flat_size() - 1);
  EXPECT_TRUE(bytes_of(shared.store.values()) == before);
}

TEST_P(SharedUpdates, LeaveEachRankItsShareOfTheState) {
  Updates shared(options(), true);
  const int64_t all = shared.store.flat_size();
  EXPECT_EQ(shared.optimizer->state().m.cols, shared.optimizer->shard().size());
  EXPECT_LE(shared.optimizer->shard().size(), all / world().size() + ShardPlan::unit());
}

}  // namespace
}  // namespace ventris
