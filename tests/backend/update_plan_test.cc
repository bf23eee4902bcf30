#include "backend/update_plan.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ventris {
namespace {

struct Plan {
  AdamScalars scalars{};
  StepOutcome outcome{};
  int64_t updates = 6;
};

Plan plan(double loss, double nll, double squares, double clip_norm = 0.0) {
  Context context({.scratch_bytes = 256});
  const double sums[2] = {loss, nll};
  const float rate = 0.25F;
  Plan made;
  plan_update(context, {.loss_sums = sums,
                        .sum_of_squares = &squares,
                        .learning_rate = &rate,
                        .clip_norm = clip_norm,
                        .updates = &made.updates,
                        .scalars = &made.scalars,
                        .outcome = &made.outcome});
  return made;
}

TEST(PlanUpdate, CountsTheUpdateAndCorrectsTheMomentsByIt) {
  const Plan got = plan(3.0, 2.0, 16.0);
  EXPECT_EQ(got.updates, 7);
  EXPECT_EQ(got.scalars.skip, 0);
  EXPECT_EQ(got.scalars.learning_rate, 0.25F);
  EXPECT_EQ(got.scalars.gradient_scale, 1.0F);
  EXPECT_EQ(got.scalars.bias_correction1, static_cast<float>(1.0 - std::pow(static_cast<double>(0.9F), 7.0)));
  EXPECT_EQ(got.scalars.bias_correction2,
            static_cast<float>(1.0 - std::pow(static_cast<double>(0.98F), 7.0)));
  EXPECT_EQ(got.outcome.loss, 3.0);
  EXPECT_EQ(got.outcome.nll, 2.0);
  EXPECT_EQ(got.outcome.gradient_norm, 4.0);
  EXPECT_EQ(got.outcome.updates, 7);
  EXPECT_EQ(got.outcome.skipped, 0);
}

TEST(PlanUpdate, ClipsALongGradientAlone) {
  EXPECT_EQ(plan(3.0, 2.0, 16.0, 1.0).scalars.gradient_scale, 0.25F);
  EXPECT_EQ(plan(3.0, 2.0, 16.0, 4.0).scalars.gradient_scale, 1.0F);
  EXPECT_EQ(plan(3.0, 2.0, 16.0, 5.0).scalars.gradient_scale, 1.0F);
  EXPECT_EQ(plan(3.0, 2.0, 0.0, 5.0).scalars.gradient_scale, 1.0F);
}

TEST(PlanUpdate, SkipsAStepThatIsNotFinite) {
  for (const double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    for (const Plan& got : {plan(bad, 2.0, 16.0), plan(3.0, bad, 16.0), plan(3.0, 2.0, bad)}) {
      EXPECT_EQ(got.updates, 6);
      EXPECT_EQ(got.scalars.skip, 1);
      EXPECT_EQ(got.outcome.skipped, 1);
      EXPECT_EQ(got.outcome.updates, 6);
    }
  }
}

}  // namespace
}  // namespace ventris
