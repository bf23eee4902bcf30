#include "trainer/optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

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
    for (const LogicalParameter& parameter : store.logical()) fill(parameter, gradient);
  }
  void fill(const LogicalParameter& parameter, float gradient) {
    const Tensor view = store.logical_gradient(parameter);
    for (int64_t row = 0; row < view.rows; ++row) std::fill_n(view.row<float>(row), view.cols, gradient);
  }

  double norm() {
    optimizer->compute_norm();
    return optimizer->gradient_norm();
  }

  Context context{{.threads = 1}};
  ParameterStore store;
  TransformerIds ids;
  std::optional<Optimizer> optimizer;
};

TEST(Optimizer, NormIsThatOfAllGradients) {
  Problem problem({}, 0.5F);
  const double expected = 0.5 * std::sqrt(static_cast<double>(problem.store.parameter_count()));
  EXPECT_NEAR(problem.norm(), expected, 1e-9 * expected);
  problem.optimizer->zero_gradients();
  EXPECT_EQ(problem.norm(), 0.0);
}

TEST(Optimizer, ClippingScalesALongGradientToTheLengthAllowed) {
  TrainOptions clipping;
  clipping.clip_norm = 2.0;
  Problem clipped(clipping, 0.5F);
  const double norm = clipped.norm();
  ASSERT_GT(norm, 2.0);
  clipped.optimizer->step(1, 0.01, norm);
  // After the first update m is (1 - beta1) times the gradient that was used.
  const Tensor m = clipped.optimizer->m();
  double squares = 0.0;
  for (int64_t i = 0; i < m.cols; ++i) squares += std::pow(static_cast<double>(m.as<float>()[i]) / 0.1, 2);
  EXPECT_NEAR(std::sqrt(squares), 2.0, 1e-4);

  Problem scaled({}, 0.5F * static_cast<float>(2.0 / norm));
  scaled.optimizer->step(1, 0.01, scaled.norm());
  const std::vector<float> expected = flat_values(scaled.store);
  const std::vector<float> values = flat_values(clipped.store);
  for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], expected[i], 1e-6F) << i;
}

TEST(Optimizer, ClippingLeavesAShortGradientAlone) {
  TrainOptions clipping;
  clipping.clip_norm = 1e6;
  Problem clipped(clipping, 0.5F);
  Problem plain({}, 0.5F);
  for (Problem* problem : {&clipped, &plain}) {
    problem->optimizer->step(1, 0.01, problem->norm());
  }
  EXPECT_TRUE(flat_values(clipped.store) == flat_values(plain.store));
}

TEST(Optimizer, MomentsAreCorrectedByTheNumberOfTheUpdate) {
  Problem problem({}, 0.25F);
  const std::vector<float> before = flat_values(problem.store);
  problem.optimizer->step(1, 0.01, 1.0);
  problem.optimizer->step(2, 0.01, 1.0);
  // With one gradient again and again every corrected update is the learning rate against its sign.
  const Tensor embedding = problem.store.logical_value(problem.store.logical().front());
  const auto offset = static_cast<size_t>(problem.store.offset(problem.ids.embedding));
  EXPECT_NEAR(embedding.as<float>()[0], before[offset] - 0.02F, 1e-5F);
}

TEST(Optimizer, ANumberThatIsNotFiniteIsFoundAndItsPlaceNamed) {
  Problem problem({}, 0.5F);
  EXPECT_EQ(describe_not_finite(problem.context, problem.store), "the loss");
  const LogicalParameter& first = problem.store.logical().front();
  const LogicalParameter& last = problem.store.logical().back();
  problem.fill(first, std::numeric_limits<float>::quiet_NaN());
  problem.fill(last, std::numeric_limits<float>::infinity());
  EXPECT_FALSE(std::isfinite(problem.norm()));
  // Backward reaches the last parameter first.
  EXPECT_EQ(describe_not_finite(problem.context, problem.store), "the gradient of " + last.name);
  problem.store.logical_value(first).as<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(describe_not_finite(problem.context, problem.store), "parameter " + first.name);
}

}  // namespace
}  // namespace ventris
