// SPDX-License-Identifier: Apache-2.0
#include "trainer/phase_clock.h"

#include <gtest/gtest.h>

#include <chrono>

namespace ventris {
namespace {

using std::chrono::seconds;

const PhaseClock::Time kBegin{};

TEST(PhaseClock, CountsEveryMomentOnce) {
  PhaseClock clock(kBegin);
  EXPECT_EQ(clock.enter(RunPhase::kSteps, kBegin + seconds(1)), RunPhase::kStart);
  clock.enter(RunPhase::kValidation, kBegin + seconds(10));
  EXPECT_EQ(clock.enter(RunPhase::kSaving, kBegin + seconds(14)), RunPhase::kValidation);
  clock.enter(RunPhase::kValidation, kBegin + seconds(16));
  clock.enter(RunPhase::kOther, kBegin + seconds(17));
  const PhaseSeconds expected = {{"start", 1.0},      {"data", 2.5},   {"steps", 6.5},
                                 {"validation", 5.0}, {"saving", 2.0}, {"other", 3.0}};
  EXPECT_EQ(clock.take(2.5, kBegin + seconds(20)), expected);
}

TEST(PhaseClock, GoesOnInThePhaseInWhichItWasRead) {
  PhaseClock clock(kBegin);
  clock.enter(RunPhase::kSteps, kBegin);
  clock.take(0.0, kBegin + seconds(5));
  const PhaseSeconds seconds_after = clock.take(0.0, kBegin + seconds(7));
  EXPECT_EQ(seconds_after[static_cast<size_t>(RunPhase::kSteps)].second, 2.0);
}

TEST(PhaseClock, WaitsForBatchesAreNeverLongerThanTheSteps) {
  PhaseClock clock(kBegin);
  clock.enter(RunPhase::kSteps, kBegin);
  const PhaseSeconds taken = clock.take(3.0, kBegin + seconds(2));
  EXPECT_EQ(taken[static_cast<size_t>(RunPhase::kData)].second, 2.0);
  EXPECT_EQ(taken[static_cast<size_t>(RunPhase::kSteps)].second, 0.0);
}

TEST(PhaseClock, AScopeGivesBackThePhaseBefore) {
  PhaseClock clock(kBegin);
  clock.enter(RunPhase::kOther, kBegin);
  {
    const PhaseRange range(clock, RunPhase::kValidation);
    const PhaseRange inner(clock, RunPhase::kSaving);
  }
  EXPECT_EQ(clock.enter(RunPhase::kSteps), RunPhase::kOther);
}

}  // namespace
}  // namespace ventris
