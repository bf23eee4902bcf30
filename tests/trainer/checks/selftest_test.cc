// SPDX-License-Identifier: Apache-2.0
#include "trainer/checks/selftest.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backend/cast.h"
#include "backend/error.h"
#include "trainer/checks/selftest_kernels.h"

namespace ventris {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Tolerance kTolerance = {0.1, 0.0};

/// What a trial of a kernel finds.
KernelResult result_of(const std::function<void(Trial&)>& body) {
  Context context({.threads = 2});
  KernelResult found;
  SelftestRun run(context, short_selftest(), Precision::kF32,
                  [&](const KernelResult& told) { found = told; });
  run.kernel("name", "shape", DType::kBF16, body);
  EXPECT_EQ(found.kernel, "name");
  EXPECT_EQ(found.shape, "shape");
  EXPECT_EQ(found.dtype, "bf16");
  return found;
}

/// As of an operation that writes `wrong` where another number is expected.
KernelResult result_with(double wrong, DType dtype) {
  return result_of([&](Trial& trial) {
    const Matrix expected = trial.draw(40, 300, dtype);
    Matrix got = expected;
    got.at(33, 257) = wrong;
    trial.expect("y", Operand(trial.context(), got, dtype), expected, kTolerance, 1.0);
  });
}

TEST(SelftestTrial, FindsOneWrongNumber) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const KernelResult wrong = result_with(50.0, dtype);
    EXPECT_FALSE(wrong.ok());
    EXPECT_GT(wrong.error, 400.0);
    EXPECT_TRUE(wrong.finding.starts_with("y[33, 257] is 50, expected ")) << wrong.finding;
    for (const double not_finite : {std::nan(""), kInfinity, -kInfinity}) {
      const KernelResult found = result_with(not_finite, dtype);
      EXPECT_EQ(found.error, kInfinity);
      EXPECT_TRUE(found.finding.starts_with("y[33, 257] is ")) << found.finding;
    }
  }
}

TEST(SelftestTrial, MeasuresErrorsByTheTolerance) {
  const auto result_at = [](double difference, double scale) {
    return result_of([&](Trial& trial) {
      Matrix expected(3, 5), got(3, 5);
      got.at(2, 4) = difference;
      trial.expect("y", Operand(trial.context(), got, DType::kF32), expected, kTolerance, scale);
    });
  };
  EXPECT_NEAR(result_at(0.05, 1.0).error, 0.5, 1e-6);
  EXPECT_TRUE(result_at(0.05, 1.0).ok());
  EXPECT_FALSE(result_at(0.05, 0.1).ok());
  EXPECT_EQ(result_at(0.0, 0.0).error, 0.0);
  EXPECT_EQ(result_at(1e-30, 0.0).error, kInfinity);
}

TEST(SelftestTrial, FindsWhatWasNotWritten) {
  const KernelResult found = result_of([](Trial& trial) {
    const Matrix expected = trial.draw(7, 9, DType::kF32);
    const Operand y(trial.context(), 7, 9, DType::kF32);
    const Operand x(trial.context(), expected, DType::kF32);
    // As an operation that forgets its last row.
    cast(trial.context(), {.source = x.view().row_range(0, 6), .destination = y.view().row_range(0, 6)});
    trial.expect("y", y, expected, kTolerance);
  });
  EXPECT_EQ(found.error, kInfinity);
  EXPECT_TRUE(found.finding.starts_with("y[6, 0] is ")) << found.finding;
}

TEST(SelftestTrial, RepeatsRowsAndComparesEach) {
  for (const int64_t wrong : {int64_t{-1}, int64_t{0}, int64_t{999}}) {
    const KernelResult found = result_of([&](Trial& trial) {
      const Matrix expected = trial.draw(kDistinctRows, 3, DType::kBF16);
      const Operand y(trial.context(), expected, DType::kBF16, 1000);
      if (wrong >= 0) fill_zero(trial.context(), y.view().row_range(wrong, 1));
      trial.expect("y", y, expected, kTolerance);
    });
    EXPECT_EQ(found.ok(), wrong < 0) << found.finding;
    EXPECT_EQ(found.finding.find(fmt::format("y[{}, ", wrong)) == 0, wrong >= 0) << found.finding;
  }
}

TEST(SelftestTrial, KeepsTheWorstOfItsFindings) {
  const KernelResult found = result_of([](Trial& trial) {
    trial.expect("a", 1.2, 1.0, kTolerance);
    trial.expect("b", 3.0, 1.0, kTolerance);
    trial.expect("c", 1.3, 1.0, kTolerance);
    trial.expect("d", std::nan(""), std::nan(""), kTolerance);
  });
  EXPECT_NEAR(found.error, 20.0, 1e-9);
  EXPECT_EQ(found.finding, "b is 3, expected 1");
}

TEST(SelftestTrial, ToldErrorsAreFindingsButNotAMissingDevice) {
  const KernelResult found =
      result_of([](Trial&) { fail(ExitCode::kInternal, "the launch of a kernel failed"); });
  EXPECT_EQ(found.finding, "the launch of a kernel failed");
  EXPECT_EQ(found.error, kInfinity);
  EXPECT_THROW(result_of([](Trial&) { fail(ExitCode::kUnavailable, "no memory"); }), Error);
}

TEST(SelftestTrial, DrawsTheSameNumbersAgainAndOthersForEachMatrix) {
  Context one({.threads = 1}), three({.threads = 3});
  Trial first(one), second(three);
  const Matrix a = first.draw(50, 7, DType::kBF16, 2.0), again = second.draw(50, 7, DType::kBF16, 2.0);
  EXPECT_EQ(a.values, again.values);
  const Matrix b = first.draw(50, 7, DType::kBF16, 2.0);
  EXPECT_NE(a.values, b.values);
  double squares = 0.0;
  for (const double value : a.values) {
    squares += value * value;
    EXPECT_EQ(value, static_cast<double>(static_cast<float>(BF16(static_cast<float>(value)))));
  }
  EXPECT_NEAR(std::sqrt(squares / 350.0), 2.0, 0.2);
}

TEST(SelftestTest, TheKernelsOfThisProcessorComputeAsTheyShould) {
  Context context({.threads = 3});
  size_t told = 0;
  const std::vector<KernelResult> results =
      selftest(context, short_selftest(), [&](const KernelResult&) { ++told; });
  EXPECT_EQ(told, results.size());
  EXPECT_GT(results.size(), 80U);
  for (const KernelResult& result : results)
    EXPECT_TRUE(result.ok() && result.error <= 1.0)
        << result.kernel << " " << result.shape << " " << result.dtype << ": " << result.finding;
}

TEST(SelftestTest, ProductsHaveTheRowsOfABatch) {
  const Context context({.threads = 1});
  TrainOptions train = preset_options("base");
  EXPECT_EQ(selftest_rows(train, context), 1100);
  train.batch_source_tokens = 100;
  train.batch_target_tokens = 200;
  EXPECT_EQ(selftest_rows(train, context), 256);
}

}  // namespace
}  // namespace ventris
