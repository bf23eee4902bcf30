// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launch/command.h"

namespace ventris {

/// The text of `ventris --help`.
std::string program_help(const std::vector<Command>& commands);
/// The text of `ventris COMMAND --help`: the common options with their values, on one screen; all options if
/// the command does not select common ones.
std::string command_help(const Command& command);
/// The text of `ventris COMMAND --help all`: name, synopsis, description, options by group, examples, exit
/// codes.
std::string command_help_in_full(const Command& command);
/// The command that shows that text.
std::string help_in_full_line(const Command& command);
/// The same for all commands as docs/commands.md.
std::string markdown_reference(const std::vector<Command>& commands);

}  // namespace ventris
