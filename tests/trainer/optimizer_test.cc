// SPDX-License-Identifier: Apache-2.0
#include "trainer/optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "tests/trainer/small_model.h"

namespace ventris {
namespace {

using testing::flat_values;
using testing::small_config;

/// A small model with gradients, all of one value, and an optimizer over it.
struct Problem {
  explicit Problem(const TrainOptions& options = {}, float gradient = 0.0F) {
    ids = declare_transformer(small_config(), store);
    store.allocate(Device::kCpu, DType::kF32, /*gradients=*/true);
    store.initialize(context, 1);
    optimizer.emplace(context, store, options);
    fill_all(gradient);
  }
  void fill(const LogicalParameter& parameter, float gradient) {
    const Tensor view = store.logical_gradient(parameter);
    for (int64_t row = 0; row < view.rows; ++row) std::fill_n(view.row<float>(row), view.cols, gradient);
  }

  /// An update with a loss of these sums, and what is told of it.
  StepReport update(double learning_rate, double loss = 1.0) {
    double sums[2] = {loss, loss};
    optimizer->set_learning_rate(learning_rate);
    optimizer->update({sums, 1, 2, 2, DType::kF64}, *self);
    EXPECT_EQ(sums[0], 0.0);
    EXPECT_EQ(sums[1], 0.0);
    HostBuffer buffer(context, sizeof(StepReport));
    optimizer->receive_report(buffer);
    StepReport report;
    std::memcpy(&report, buffer.data(), sizeof(report));
    return report;
  }
  void fill_all(float gradient) {
    for (const LogicalParameter& parameter : store.logical()) fill(parameter, gradient);
  }

  const std::unique_ptr<Communicator> self = make_self_communicator();
  Context context{{.threads = 1}};
  ParameterStore store;
  TransformerIds ids;
  std::optional<Optimizer> optimizer;
};

TEST(Optimizer, TellsTheNormOfAllGradientsAndClearsThem) {
  Problem problem({}, 0.5F);
  const double expected = 0.5 * std::sqrt(static_cast<double>(problem.store.parameter_count()));
  const StepReport first = problem.update(0.01, 3.5);
  EXPECT_NEAR(first.outcome.gradient_norm, expected, 1e-9 * expected);
  EXPECT_EQ(first.outcome.loss, 3.5);
  EXPECT_EQ(first.outcome.skipped, 0);
  EXPECT_EQ(first.outcome.updates, 1);
  EXPECT_EQ(problem.update(0.01).outcome.gradient_norm, 0.0);
}

TEST(Optimizer, ClippingScalesALongGradientToTheLengthAllowed) {
  TrainOptions clipping;
  clipping.clip_norm = 2.0;
  Problem clipped(clipping, 0.5F);
  const double norm = clipped.update(0.01).outcome.gradient_norm;
  ASSERT_GT(norm, 2.0);
  // After the first update m is (1 - beta1) times the gradient that was used.
  const Tensor m = clipped.optimizer->state().m;
  double squares = 0.0;
  for (int64_t i = 0; i < m.cols; ++i) squares += std::pow(static_cast<double>(m.as<float>()[i]) / 0.1, 2);
  EXPECT_NEAR(std::sqrt(squares), 2.0, 1e-4);

  Problem scaled({}, 0.5F * static_cast<float>(2.0 / norm));
  scaled.update(0.01);
  const std::vector<float> expected = flat_values(scaled.store);
  const std::vector<float> values = flat_values(clipped.store);
  for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], expected[i], 1e-6F) << i;
}

/// AdamW as in PyTorch (torch.optim.AdamW): the values are multiplied by 1 - rate * decay, and the update of
/// Adam, which sees the gradient alone, is subtracted.
TEST(Optimizer, WeightDecayIsApartFromTheGradient) {
  constexpr double kRate = 0.01;
  constexpr double kDecay = 0.3;
  TrainOptions options;
  options.weight_decay = kDecay;
  Problem decayed(options);
  const std::vector<float> start = flat_values(decayed.store);
  for (int step = 0; step < 3; ++step) {
    decayed.fill_all(step % 2 == 0 ? 0.5F : -0.25F);
    decayed.update(kRate);
  }
  for (const LogicalParameter& parameter : decayed.store.logical()) {
    const double factor = parameter.vector ? 1.0 : 1.0 - kRate * kDecay;
    const Tensor got = decayed.store.logical_value(parameter);
    const auto u = [](int n) {  // of Adam with these gradients, in double
      double m = 0.0;
      double v = 0.0;
      double step = 0.0;
      for (int i = 0; i < n; ++i) {
        const double g = i % 2 == 0 ? 0.5 : -0.25;
        m = 0.9 * m + 0.1 * g;
        v = 0.98 * v + 0.02 * g * g;
        step = kRate * (m / (1.0 - std::pow(0.9, i + 1))) /
               (std::sqrt(v / (1.0 - std::pow(0.98, i + 1))) + 1e-9);
      }
      return step;
    };
    const auto first = static_cast<size_t>(decayed.store.offset(parameter.tensor) + parameter.col_begin);
    double expected = static_cast<double>(start[first]);
    for (int n = 1; n <= 3; ++n) expected = factor * expected - u(n);
    EXPECT_NEAR(got.as<float>()[0], expected, 1e-6) << parameter.name;
  }
}

TEST(Optimizer, WeightDecayLeavesFrozenColumnsOfAFusedTensor) {
  TrainOptions options;
  options.weight_decay = 0.5;
  Context context{{.threads = 1}};
  ParameterStore store;
  declare_transformer(small_config(), store);
  const std::string frozen = "encoder/layers/0/self_attention/key/weight";
  ASSERT_NE(store.find(frozen), nullptr);
  store.freeze({frozen});
  store.allocate(Device::kCpu, DType::kF32, /*gradients=*/true);
  store.initialize(context, 1);
  const std::vector<float> before = flat_values(store);
  Optimizer optimizer(context, store, options);
  double sums[2] = {1.0, 1.0};
  optimizer.set_learning_rate(0.5);
  optimizer.update({sums, 1, 2, 2, DType::kF64}, *make_self_communicator());
  size_t moved = 0;
  for (const LogicalParameter& parameter : store.logical()) {
    const Tensor value = store.logical_value(parameter);
    for (int64_t row = 0; row < value.rows; ++row) {
      for (int64_t col = 0; col < value.cols; ++col) {
        const auto at = static_cast<size_t>(value.row<float>(row) + col - store.values().as<float>());
        const float factor = parameter.vector || parameter.name == frozen ? 1.0F : 0.75F;
        ASSERT_EQ(value.row<float>(row)[col], before[at] * factor) << parameter.name;
        moved += factor < 1.0F ? 1 : 0;
      }
    }
  }
  EXPECT_GT(moved, 0U);
}

TEST(Optimizer, UpdatesAreCountedOnFromWhereARunIsResumed) {
  Problem problem({}, 0.25F);
  problem.optimizer->set_updates(99);
  EXPECT_EQ(problem.update(0.01).outcome.updates, 100);
}

TEST(Optimizer, ASkippedStepIsAsIfItHadNotBeen) {
  Problem with({}, 0.25F);
  Problem without({}, 0.25F);
  for (Problem* problem : {&with, &without}) problem->update(0.01);
  const LogicalParameter& last = with.store.logical().back();
  with.fill(last, std::numeric_limits<float>::infinity());
  EXPECT_EQ(with.update(0.5).outcome.skipped, 1);
  EXPECT_EQ(with.update(0.5, std::numeric_limits<double>::quiet_NaN()).outcome.skipped, 1);
  for (Problem* problem : {&with, &without}) {
    problem->fill_all(-0.5F);
    const StepOutcome outcome = problem->update(0.02).outcome;
    EXPECT_EQ(outcome.updates, 2);
    EXPECT_EQ(outcome.skipped, 0);
  }
  EXPECT_TRUE(flat_values(with.store) == flat_values(without.store));
}

TEST(Optimizer, ANumberThatIsNotFiniteIsFoundAndItsPlaceNamed) {
  Problem problem({}, 0.5F);
  const auto place = [&](double loss) {
    return describe_not_finite(problem.store, problem.update(0.01, loss).not_finite);
  };
  EXPECT_EQ(place(std::numeric_limits<double>::quiet_NaN()), "the loss");
  const LogicalParameter& first = problem.store.logical().front();
  const LogicalParameter& last = problem.store.logical().back();
  problem.fill(first, std::numeric_limits<float>::quiet_NaN());
  problem.fill(last, std::numeric_limits<float>::infinity());
  // Backward reaches the last parameter first.
  EXPECT_EQ(place(1.0), "the gradient of " + last.name);
  problem.fill(last, std::numeric_limits<float>::infinity());
  problem.store.logical_value(first).as<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(place(1.0), "parameter " + first.name);
}

}  // namespace
}  // namespace ventris
