// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>

namespace ventris {

/// The waiting time of a loop that polls this clock often. A gap between two polls counts as at most one
/// second, so that a process that was stopped itself, for example by a batch system that suspends the job,
/// does not blame others.
class WaitClock {
 public:
  /// Seconds since construction or restart.
  double seconds() {
    const auto now = Clock::now();
    waited_ += std::min<Clock::duration>(now - last_, std::chrono::seconds(1));
    last_ = now;
    return std::chrono::duration<double>(waited_).count();
  }
  void restart() { *this = WaitClock(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_ = Clock::now();
  Clock::duration waited_{0};
};

}  // namespace ventris
