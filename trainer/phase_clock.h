// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace ventris {

/// What the time of a run is spent on.
enum class RunPhase { kStart, kData, kSteps, kValidation, kSaving, kOther };
inline constexpr size_t kRunPhases = 6;
/// "start", "data", "steps", "validation", "saving", "other".
const char* name_of(RunPhase phase);

/// Seconds of every phase, by name, in the order of RunPhase.
using PhaseSeconds = std::vector<std::pair<std::string, double>>;

/// The wall time of the thread that trains, by phase: all of it, each moment once. Begins with kStart.
class PhaseClock {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;

  explicit PhaseClock(Time now = Clock::now()) : since_(now) {}
  /// Of the time from now on. Returns the phase so far.
  RunPhase enter(RunPhase phase, Time now = Clock::now());
  /// Since the previous call. `waited`: seconds of the steps in which the next batch was not yet packed,
  /// which are those of kData.
  PhaseSeconds take(double waited, Time now = Clock::now());

 private:
  std::array<double, kRunPhases> seconds_{};
  RunPhase phase_ = RunPhase::kStart;
  Time since_;
};

/// A phase from here to the end of the scope; then that before goes on.
class PhaseRange {
 public:
  PhaseRange(PhaseClock& clock, RunPhase phase) : clock_(clock), before_(clock.enter(phase)) {}
  ~PhaseRange() { clock_.enter(before_); }
  PhaseRange(const PhaseRange&) = delete;
  PhaseRange& operator=(const PhaseRange&) = delete;

 private:
  PhaseClock& clock_;
  const RunPhase before_;
};

}  // namespace ventris
