#include "backend/moving_average.h"

#include <gtest/gtest.h>

#include "tests/support/compare.h"

namespace ventris {
namespace {

using testing::Buffer;

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
