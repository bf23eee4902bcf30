#include "backend/adam.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/support/compare.h"

namespace ventris {
namespace {

using testing::Buffer;

struct State {
  State(int64_t n, DType dtype)
      : value(Buffer::random(1, n, dtype, 1)), m(1, n, dtype), v(1, n, dtype), compute(1, n, DType::kBF16) {}
  Buffer value, m, v, compute;
};

/// `steps` steps with a gradient that changes from step to step.
State train(int64_t n, DType dtype, int steps, bool with_compute, int threads = 1) {
  Context context({.threads = threads, .scratch_bytes = 1 << 16});
  State state(n, dtype);
  for (int step = 1; step <= steps; ++step) {
    const Buffer gradient = Buffer::random(1, n, dtype, static_cast<uint32_t>(100 + step));
    const AdamScalars scalars = {.learning_rate = 0.01F,
                                 .gradient_scale = 0.5F,
                                 .bias_correction1 = static_cast<float>(1.0 - std::pow(0.9, step)),
                                 .bias_correction2 = static_cast<float>(1.0 - std::pow(0.98, step))};
    adam(context, {.value = state.value.view(),
                   .gradient = gradient.view(),
                   .m = state.m.view(),
                   .v = state.v.view(),
                   .compute = with_compute ? state.compute.view() : Tensor{},
                   .scalars = &scalars});
  }
  return state;
}

TEST(Adam, FollowsTheAlgorithm) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    for (const int64_t n : {1, 31, 1009}) {
      const State state = train(n, dtype, 5, true);
      std::vector<double> value = testing::to_doubles(Buffer::random(1, n, dtype, 1));
      std::vector<double> m(value.size());
      std::vector<double> v(value.size());
      for (int step = 1; step <= 5; ++step) {
        const Buffer gradient = Buffer::random(1, n, dtype, static_cast<uint32_t>(100 + step));
        for (size_t i = 0; i < value.size(); ++i) {
          const double g = 0.5 * gradient.get(static_cast<int64_t>(i));
          m[i] = 0.9 * m[i] + 0.1 * g;
          v[i] = 0.98 * v[i] + 0.02 * g * g;
          value[i] -= 0.01 * (m[i] / (1.0 - std::pow(0.9, step))) /
                      (std::sqrt(v[i] / (1.0 - std::pow(0.98, step))) + 1e-9);
        }
      }
      // The betas, the rate and the corrections are f32 numbers in the contract, whatever the dtype of the
      // state.
      const auto tolerance = testing::tolerance_of(DType::kF32);
      testing::expect_close("value", state.value, value, tolerance);
      testing::expect_close("m", state.m, m, tolerance);
      testing::expect_close("v", state.v, v, tolerance);
      for (int64_t i = 0; i < n; ++i) {
        ASSERT_EQ(state.compute.get(i), static_cast<float>(BF16(static_cast<float>(state.value.get(i)))));
      }
    }
  }
}

TEST(Adam, FirstStepMovesByTheLearningRateAgainstTheGradient) {
  Context context({.scratch_bytes = 1 << 16});
  State state(4, DType::kF32);
  Buffer gradient(1, 4, DType::kF32);
  const double gradients[] = {3.0, -1e-6, 1e6, 0.0};
  for (int64_t i = 0; i < 4; ++i) gradient.set(i, gradients[i]);
  const auto before = testing::to_doubles(state.value);
  const AdamScalars scalars = {0.125F, 1.0F, 1.0F - 0.9F, 1.0F - 0.98F};
  adam(context, {.value = state.value.view(),
                 .gradient = gradient.view(),
                 .m = state.m.view(),
                 .v = state.v.view(),
                 .scalars = &scalars});
  EXPECT_NEAR(state.value.get(0), before[0] - 0.125, 1e-5);
  EXPECT_NEAR(state.value.get(1), before[1] + 0.125, 2e-4);  // epsilon is a thousandth of this gradient
  EXPECT_NEAR(state.value.get(2), before[2] - 0.125, 1e-5);
  EXPECT_EQ(state.value.get(3), before[3]);
}

TEST(Adam, ASkippedStepChangesNothing) {
  Context context({.scratch_bytes = 1 << 16});
  State state = train(31, DType::kF32, 2, true);
  const State before = train(31, DType::kF32, 2, true);
  Buffer gradient(1, 31, DType::kF32);
  gradient.set(7, NAN);
  const AdamScalars scalars = {.learning_rate = 0.125F,
                               .gradient_scale = 1.0F,
                               .bias_correction1 = 0.1F,
                               .bias_correction2 = 0.02F,
                               .skip = 1};
  adam(context, {.value = state.value.view(),
                 .gradient = gradient.view(),
                 .m = state.m.view(),
                 .v = state.v.view(),
                 .compute = state.compute.view(),
                 .scalars = &scalars});
  testing::expect_same_bits("value", state.value, before.value);
  testing::expect_same_bits("m", state.m, before.m);
  testing::expect_same_bits("v", state.v, before.v);
  testing::expect_same_bits("compute", state.compute, before.compute);
}

TEST(Adam, ComputeCopyChangesNothingElse) {
  const State with = train(1009, DType::kF32, 3, true);
  const State without = train(1009, DType::kF32, 3, false);
  testing::expect_same_bits("value", with.value, without.value);
}

TEST(Adam, BitsDoNotDependOnTheNumberOfThreads) {
  const State one = train(40009, DType::kF32, 2, true);
  for (const int threads : {2, 3}) {
    const State many = train(40009, DType::kF32, 2, true, threads);
    testing::expect_same_bits("value", one.value, many.value);
    testing::expect_same_bits("m", one.m, many.m);
    testing::expect_same_bits("v", one.v, many.v);
    testing::expect_same_bits("compute", one.compute, many.compute);
  }
}

}  // namespace
}  // namespace ventris
