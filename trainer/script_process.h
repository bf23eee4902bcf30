// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <string>
#include <vector>

namespace ventris {

/// A command line of the user, run by /bin/sh beside training.
struct ScriptCommand {
  std::string line;
  std::vector<std::string> environment;  // NAME=VALUE
  double limit_seconds;                  // after which it is killed
};

struct ScriptEnd {
  std::string output;    // the beginning of its standard output, at most kMaxScriptOutput bytes
  std::string fault;     // why it did not end with exit code 0, for a person; "" if it did
  bool stopped = false;  // killed because of `stops`
};

inline constexpr size_t kMaxScriptOutput = 4096;
/// A script that writes more to a stream is killed.
inline constexpr size_t kMaxScriptBytes = size_t{16} << 20;
/// Added to the nice value of this process.
inline constexpr int kScriptNice = 10;

/// Waits until the command has ended, is over its limit, or `stops` becomes true; then no process of its
/// process group is left. Safe beside threads, MPI and devices: the process is made by posix_spawn, which
/// shares the memory until exec and copies no pages, and gets no descriptors of this process, no signal mask,
/// /dev/null as standard input, a lower priority, and the first place when the system is short of memory. If
/// this process ends in any way, also by SIGKILL, the whole group is killed. Processes that leave the group
/// (setsid) are not covered. Does not throw for a command that fails or cannot be started.
ScriptEnd run_script(const ScriptCommand& command, const std::atomic<bool>& stops);

/// The environment of this process without the variables by which launchers (Open MPI, PMIx, PMI, Slurm) tell
/// a process its place in a job: an MPI program that finds them would take part in that job.
std::vector<std::string> environment_for_scripts();

}  // namespace ventris
