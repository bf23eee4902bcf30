// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>

#include "comm/wait_clock.h"

namespace ventris {

/// Finds a launcher of Open MPI that continues after its ranks on this host have ended. It sometimes
/// deadlocks then, and would never end. A launcher is a descendant of this process named mpirun, mpiexec,
/// orterun or prterun; it is idle while it has no child. Other processes, such as a script that continues
/// after training, are not launchers.
class LauncherWatch {
 public:
  /// Checks the processes; called about once a second. Returns a launcher that has been idle for longer than
  /// `seconds`, or none. Before `begun`, when it is not known that ranks existed, a launcher counts only
  /// after it was seen with a child of this program's name.
  std::optional<pid_t> idle_launcher(double seconds, bool begun);

 private:
  std::map<pid_t, WaitClock> launchers_;  // the time since which they have no child
};

}  // namespace ventris
