#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/process.h"

namespace ventris {

/// How a command ended: the code as shells tell it, 128 and the number for a signal.
struct CommandEnd {
  int code = 0;
  bool by_signal = false;
};

/// A command with all that it starts, for the one program of this process that supervises. While the object
/// lives, SIGTERM, SIGINT, SIGUSR1 and SIGHUP (unless it was ignored) do not end this process but are
/// returned by the functions that wait, and processes whose parent ends become children of this one, so that
/// none is lost sight of.
class Supervision {
 public:
  Supervision();
  ~Supervision();
  Supervision(const Supervision&) = delete;
  Supervision& operator=(const Supervision&) = delete;

  /// Starts a command, found on the path, in a process group of its own; it gets SIGUSR1, at which a training
  /// saves and stops, if this process ends before it does, by SIGKILL for example. Throws
  /// Error(kMissingInput) with the reason where it cannot be started.
  void start(const std::vector<std::string>& words);
  pid_t pid() const { return pid_; }
  void send(int signal) const;
  /// Waits until the command ends, one of the signals comes, or the time is up. Returns the signal, or 0.
  int wait_for_end(std::chrono::milliseconds max) { return wait(max, true); }
  /// The end of the command, once it has ended.
  const std::optional<CommandEnd>& end() const { return end_; }
  /// Waits until one of the signals comes, or the time is up. Returns the signal, or 0.
  int pause(std::chrono::milliseconds max) { return wait(max, false); }
  /// Ends, with SIGKILL, what the command started and left, and waits for it. Returns the process ids.
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
