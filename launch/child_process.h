// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/process.h"

namespace ventris {

/// The end of a command: its exit code as in shells, 128 plus the number of a signal.
struct CommandEnd {
  int code = 0;
  bool by_signal = false;
};

/// A supervised command with all processes that it starts; at most one object. During its lifetime SIGTERM,
/// SIGINT, SIGUSR1 and SIGHUP (unless it was ignored) do not end this process but are returned by the
/// functions that wait, and processes whose parent ends become children of this one, so that none is lost.
class Supervision {
 public:
  Supervision();
  ~Supervision();
  Supervision(const Supervision&) = delete;
  Supervision& operator=(const Supervision&) = delete;

  /// Starts a command, found on the path, in its own process group; it gets SIGUSR1, on which training saves
  /// and stops, if this process ends first, for example by SIGKILL. Throws Error(kMissingInput) with the
  /// reason if it cannot be started.
  void start(const std::vector<std::string>& words);
  pid_t pid() const { return pid_; }
  void send(int signal) const;
  /// Waits until the command ends, one of the signals arrives, or the time is up. Returns the signal, or 0.
  int wait_for_end(std::chrono::milliseconds max) { return wait(max, true); }
  /// The end of the command, if it has ended.
  const std::optional<CommandEnd>& end() const { return end_; }
  /// Waits until one of the signals arrives, or the time is up. Returns the signal, or 0.
  int pause(std::chrono::milliseconds max) { return wait(max, false); }
  /// Kills the remaining processes of the command with SIGKILL, and waits for them. Returns the process ids.
  std::vector<pid_t> end_what_is_left();

 private:
  int wait(std::chrono::milliseconds max, bool for_end);
  void reap();

  pid_t pid_ = 0;
  std::optional<CommandEnd> end_;
};

/// The table of processes of this host.
std::map<pid_t, Process> all_processes();
/// All processes below `ancestor`.
std::vector<pid_t> descendants_of(pid_t ancestor,
                                  const std::map<pid_t, Process>& processes = all_processes());

}  // namespace ventris
