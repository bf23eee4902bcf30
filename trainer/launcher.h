#pragma once

#include <string>
#include <string_view>

namespace ventris {

/// Whether a program of that name is mpirun, by one of its names.
bool is_mpirun(std::string_view name);

/// The command line as it was given: `command`, of this process, or that of the mpirun or `ventris supervise`
/// of this host which started it, the outermost of them, with its options, in words for a shell. Those of
/// other launchers, and of another host, are not known.
std::string given_command(const std::string& command);

}  // namespace ventris
