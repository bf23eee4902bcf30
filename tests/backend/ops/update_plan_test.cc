// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/update_plan.h"

#include "tests/support/operands.h"
#include "tests/support/operation_case.h"

namespace ventris::testing {
namespace {

/// Sums of a step and the limit of its norm. There are no dtypes and no sizes.
struct Step {
  const char* name;
  double loss, nll, squares, clip_norm;
};
std::string name_of(const Step& step) {
  return std::string(name_of(test_device())) + "_" + step.name;
}
std::ostream& operator<<(std::ostream& out, const Step& step) {
  return out << step.name;
}

class PlanUpdate : public ::testing::TestWithParam<Step> {};
VENTRIS_FOR_CASES(PlanUpdate, std::vector<Step>{{"plain", 3.0, 2.0, 16.0, 0.0},
                                                {"clipped", 3.5, 2.5, 16.0, 1.0},
                                                {"at_the_limit", 3.0, 2.0, 16.0, 4.0},
                                                {"below_the_limit", 3.5, 2.5, 0.25, 1.0},
                                                {"without_gradient", 3.0, 2.0, 0.0, 5.0},
                                                {"loss_nan", NAN, 2.0, 16.0, 1.0},
                                                {"loss_infinite", INFINITY, 2.0, 16.0, 0.0},
                                                {"nll_nan", 3.5, NAN, 4.0, 1.0},
                                                {"nll_infinite", 3.0, INFINITY, 16.0, 0.0},
                                                {"norm_nan", 3.5, 2.5, NAN, 1.0},
                                                {"norm_infinite", 3.0, 2.0, INFINITY, 1.0},
                                                {"nll_and_norm_nan", 3.5, NAN, NAN, 1.0}});

void expect_told(const char* name, double is, double expected) {
  EXPECT_TRUE(is == expected || (std::isnan(is) && std::isnan(expected)))
      << name << " is " << is << ", expected " << expected;
}

TEST_P(PlanUpdate, MatchesTheReference) {
  const Step& step = GetParam();
  const double norm = std::sqrt(step.squares);
  const bool skipped = !std::isfinite(step.loss + step.nll + norm);
  const bool clipped = step.clip_norm > 0.0 && norm > step.clip_norm;
  for (const int64_t before : {0, 6, 41}) {
    SCOPED_TRACE(::testing::Message() << "after " << before << " updates");
    const ArrayOperand<double> sums({step.loss, step.nll}), squares({step.squares});
    const ArrayOperand<float> rate({0.125F});
    const ArrayOperand<int64_t> updates({before});
    const ArrayOperand<AdamScalars> scalars({AdamScalars{}});
    const ArrayOperand<StepOutcome> outcome({StepOutcome{}});
    plan_update(test_context(), {.loss_sums = sums.data(),
                                 .sum_of_squares = squares.data(),
                                 .learning_rate = rate.data(),
                                 .clip_norm = step.clip_norm,
                                 .updates = updates.data(),
                                 .scalars = scalars.data(),
                                 .outcome = outcome.data()});
    const int64_t expected_updates = skipped ? before : before + 1;
    const auto correction = [&](float beta) {
      return static_cast<float>(1.0 - std::pow(static_cast<double>(beta), expected_updates));
    };
    EXPECT_EQ(updates.get()[0], expected_updates);
    const AdamScalars got = scalars.get()[0];
    EXPECT_EQ(got.skip, skipped ? 1 : 0);
    EXPECT_EQ(got.learning_rate, 0.125F);
    EXPECT_EQ(got.gradient_scale, clipped ? static_cast<float>(step.clip_norm / norm) : 1.0F);
    EXPECT_EQ(got.bias_correction1, correction(0.9F));
    EXPECT_EQ(got.bias_correction2, correction(0.98F));
    const StepOutcome told = outcome.get()[0];
    EXPECT_EQ(told.updates, expected_updates);
    EXPECT_EQ(told.skipped, skipped ? 1 : 0);
    expect_told("loss", told.loss, step.loss);
    expect_told("nll", told.nll, step.nll);
    expect_told("gradient_norm", told.gradient_norm, norm);
  }
}

}  // namespace
}  // namespace ventris::testing
