// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

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

}  // namespace ventris
