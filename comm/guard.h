// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace ventris {

/// The status of a process of this host (/proc/PID/stat).
struct Process {
  pid_t parent = 0;
  std::string name;  // of the program, cut to 15 characters
  char state = 0;    // a letter of proc(5)
  /// Whether it has ended but was not reaped yet.
  bool ended() const { return state == 'Z' || state == 'X'; }
};

/// Empty for a process that is gone or not visible.
std::optional<Process> process_of(pid_t pid);

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

/// Watches a call that has no timeout, such as MPI_Init_thread, from a separate thread during the lifetime of
/// the object. After `seconds` (0: never; time in which this process was stopped does not count) it calls
/// `late`; when `stop_requested` (may be empty) returns true it calls `stopped`. Both end the process. If the
/// system starts no thread, the call is not watched.
class Guard {
 public:
  struct Actions {
    std::function<void()> late;
    std::function<bool()> stop_requested = {};
    std::function<void()> stopped = {};
  };

  Guard(double seconds, Actions actions);
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  void watch(double seconds);

  Actions actions_;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool over_ = false;
  std::thread thread_;  // the last: it uses the others
};

/// The state of a process of this host: "stopped", "waiting for a disk", "gone"; "" if it runs or sleeps
/// normally.
std::string state_of_process(int pid);

/// For messages, when MPI is not available: the ranks of the same job on this host that are stopped, wait for
/// a disk or are absent, by the environment that the launcher gave them; "" if there are none.
std::string describe_local_ranks();
/// Whether a rank of the same job that the launcher started on this host has ended.
bool local_rank_exited();

/// A number that the launcher gave this process in its environment: the first of the variables that is set,
/// or `otherwise`.
int launcher_number(std::initializer_list<const char*> variables, int otherwise);

}  // namespace ventris
