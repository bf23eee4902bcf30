// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/phase_clock.h"

namespace ventris {

/// What the training of a process keeps over rollbacks, each of which begins another TrainingRun.
struct TrainingProcess {
  PhaseClock::Time begin = PhaseClock::Clock::now();
  PhaseClock phases{begin};
};

}  // namespace ventris
