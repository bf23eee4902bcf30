#include "backend/moving_average.h"

#include <gtest/gtest.h>

#include "tests/support/compare.h"

namespace ventris {
namespace {

using testing::Buffer;

StepOutcome outcome_of(int64_t updates, int32_t skipped = 0) {
  return {.loss = 1.0, .nll = 1.0, .gradient_norm = 1.0, .updates = updates, .skipped = skipped};
}

Buffer averaged(int64_t n, DType dtype, double decay, const StepOutcome& outcome, int threads = 1) {
  Context context({.threads = threads, .scratch_bytes = 1 << 16});
  const Buffer value = Buffer::random(1, n, dtype, 1);
  Buffer average = Buffer::random(1, n, dtype, 2);
  moving_average(context,
                 {.value = value.view(), .average = average.view(), .decay = decay, .outcome = &outcome});
  return average;
}

TEST(MovingAverage, MovesByTheDecayOrByThatOfTheFirstUpdates) {
  struct Case {
    double decay;
    int64_t updates;
    double applied;
  };
  for (const Case& c : {Case{0.9, 1, 2.0 / 11.0}, Case{0.9, 80, 0.9}, Case{0.9, 81, 0.9},
                        Case{0.9, 71, 72.0 / 81.0}, Case{0.0, 5, 0.0}}) {
    for (const DType dtype : {DType::kF32, DType::kF64}) {
      for (const int64_t n : {1, 31, 20011}) {
        const Buffer got = averaged(n, dtype, c.decay, outcome_of(c.updates));
        const Buffer value = Buffer::random(1, n, dtype, 1);
        std::vector<double> expected = testing::to_doubles(Buffer::random(1, n, dtype, 2));
        for (size_t i = 0; i < expected.size(); ++i) {
          expected[i] = c.applied * expected[i] + (1.0 - c.applied) * value.get(static_cast<int64_t>(i));
        }
        testing::expect_close("average", got, expected, testing::tolerance_of(dtype));
      }
    }
  }
}

TEST(MovingAverage, IsLeftByASkippedStep) {
  const Buffer got = averaged(1009, DType::kF32, 0.5, outcome_of(7, 1));
  testing::expect_same_bits("average", got, Buffer::random(1, 1009, DType::kF32, 2));
}

TEST(MovingAverage, BitsDoNotDependOnTheNumberOfThreads) {
  const StepOutcome outcome = outcome_of(1000);
  testing::expect_same_bits("average", averaged(40009, DType::kF32, 0.99, outcome),
                            averaged(40009, DType::kF32, 0.99, outcome, 3));
}

TEST(Exchange, GivesEachTheOther) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    Context context({.threads = 2, .scratch_bytes = 1 << 16});
    Buffer a = Buffer::random(1, 40009, dtype, 1);
    Buffer b = Buffer::random(1, 40009, dtype, 2);
    exchange(context, {.a = a.view(), .b = b.view()});
    testing::expect_same_bits("a", a, Buffer::random(1, 40009, dtype, 2));
    testing::expect_same_bits("b", b, Buffer::random(1, 40009, dtype, 1));
  }
}

}  // namespace
}  // namespace ventris
