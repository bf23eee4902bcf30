// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace ventris {

/// Whether a program of that name is mpirun, by one of its names.
bool is_mpirun(std::string_view name);

/// The mpirun and supervise.sh on this host that started this process, the nearest first. Those on
/// another host, and other launchers, are not found.
std::vector<pid_t> launchers();

/// The original command line, quoted for a shell: `command` of this process, or that of the outermost mpirun
/// or supervise.sh on this host that started it, with its options: the last of launchers().
std::string given_command(const std::string& command);

}  // namespace ventris
