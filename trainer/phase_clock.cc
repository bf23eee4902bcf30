// SPDX-License-Identifier: Apache-2.0
#include "trainer/phase_clock.h"

#include <algorithm>

namespace ventris {

const char* name_of(RunPhase phase) {
  constexpr std::array<const char*, kRunPhases> kNames = {"start",      "data",   "steps",
                                                          "validation", "saving", "other"};
  return kNames[static_cast<size_t>(phase)];
}

RunPhase PhaseClock::enter(RunPhase phase, Time now) {
  const RunPhase before = phase_;
  seconds_[static_cast<size_t>(before)] += std::chrono::duration<double>(now - since_).count();
  since_ = now;
  phase_ = phase;
  return before;
}

PhaseSeconds PhaseClock::take(double waited, Time now) {
  enter(phase_, now);
  double& steps = seconds_[static_cast<size_t>(RunPhase::kSteps)];
  const double data = std::min(waited, steps);
  steps -= data;
  seconds_[static_cast<size_t>(RunPhase::kData)] += data;
  PhaseSeconds taken;
  for (size_t phase = 0; phase < kRunPhases; ++phase)
    taken.emplace_back(name_of(static_cast<RunPhase>(phase)), seconds_[phase]);
  seconds_ = {};
  return taken;
}

}  // namespace ventris
