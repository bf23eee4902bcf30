// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace ventris {

/// Whether a program of that name is mpirun, by one of its names.
bool is_mpirun(std::string_view name);

/// The original command line, quoted for a shell: `command` of this process, or that of the outermost mpirun
/// or supervise.sh on this host that started it, with its options.
std::string given_command(const std::string& command);

}  // namespace ventris
