// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "backend/adam.h"
#include "backend/global_norm.h"
#include "backend/moving_average.h"
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
State train(int64_t n, DType dtype, int steps, int threads) {
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
                   .compute = state.compute.view(),
                   .scalars = &scalars});
  }
  return state;
}

TEST(Adam, BitsDoNotDependOnTheNumberOfThreads) {
  const State one = train(40009, DType::kF32, 2, 1);
  for (const int threads : {2, 3}) {
    const State many = train(40009, DType::kF32, 2, threads);
    testing::expect_same_bits("value", one.value, many.value);
    testing::expect_same_bits("m", one.m, many.m);
    testing::expect_same_bits("v", one.v, many.v);
    testing::expect_same_bits("compute", one.compute, many.compute);
  }
}

double squares_of(const Buffer& x, int threads) {
  Context context({.threads = threads, .scratch_bytes = 1 << 16});
  double result = -1.0;
  sum_of_squares(context, {.x = x.view(), .result = &result});
  return result;
}

TEST(SumOfSquares, BitsDoNotDependOnTheNumberOfThreads) {
  const Buffer x = Buffer::random(1, 100003, DType::kF32, 3);
  EXPECT_EQ(squares_of(x, 1), squares_of(x, 2));
  EXPECT_EQ(squares_of(x, 1), squares_of(x, 3));
}

Buffer averaged(int threads) {
  constexpr int64_t kLength = 40009;
  Context context({.threads = threads, .scratch_bytes = 1 << 16});
  const StepOutcome outcome = {.loss = 1.0, .nll = 1.0, .gradient_norm = 1.0, .updates = 1000, .skipped = 0};
  const Buffer value = Buffer::random(1, kLength, DType::kF32, 1);
  Buffer average = Buffer::random(1, kLength, DType::kF32, 2);
  moving_average(context,
                 {.value = value.view(), .average = average.view(), .decay = 0.99, .outcome = &outcome});
  return average;
}

TEST(MovingAverage, BitsDoNotDependOnTheNumberOfThreads) {
  testing::expect_same_bits("average", averaged(1), averaged(3));
}

}  // namespace
}  // namespace ventris
