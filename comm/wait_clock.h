#pragma once

#include <algorithm>
#include <chrono>

namespace ventris {

/// How long something has been waited for by a loop that looks at this clock often. A gap between two looks
/// counts as a second at most: a process that was stopped itself, as by a batch system that suspends the
/// whole job, does not take its own absence for that of others.
class WaitClock {
 public:
  /// Seconds since the clock was made or restarted.
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
