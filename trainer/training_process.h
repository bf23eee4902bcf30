// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "trainer/phase_clock.h"

namespace ventris {

class TeacherModels;

/// What the training of a process keeps over rollbacks, each of which begins another TrainingRun.
struct TrainingProcess {
  PhaseClock::Time begin = PhaseClock::Clock::now();
  PhaseClock phases{begin};
  std::shared_ptr<TeacherModels> teachers = nullptr;  // null before they are loaded, and without --teacher
};

}  // namespace ventris
