#pragma once

#include <sys/types.h>

#include <map>
#include <optional>

#include "comm/wait_clock.h"

namespace ventris {

/// Finds a launcher of Open MPI that lives on after its ranks on this host have ended. It sometimes locks
/// itself up then, and would be waited for without end. A launcher is a process below this one, named mpirun,
/// mpiexec, orterun or prterun; it is idle while it has no child at all. Whatever else a command starts, such
/// as a script that goes on after training, is none.
class LauncherWatch {
 public:
  /// Looks at the processes; called about once a second. A launcher that has been idle for longer than
  /// `seconds`, or none. Before `begun`, where it is not known otherwise that there were ranks, one counts
  /// only after it was seen to have a child of this program's name.
  std::optional<pid_t> idle_launcher(double seconds, bool begun);

 private:
  std::map<pid_t, WaitClock> launchers_;  // since when they have had no child
};

}  // namespace ventris
