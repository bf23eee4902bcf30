// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launch/command.h"

/// What the help on a terminal, the manual pages and docs/commands.md say in the same words.

namespace ventris {

/// In lines of at most 80 characters. Lines after the first are indented by `hanging` more, and `mark` ends
/// each continued line.
std::string wrapped(const std::string& text, size_t indent, size_t hanging = 0, const std::string& mark = "");

/// "-b, --beam-size N".
std::string title_of(const Option& option);
/// "at least 1; default: 4; fixed", or "".
std::string notes_of(const Option& option);
/// The groups of the options in their order.
std::vector<std::string> groups_of(const Command& command);
/// The line of an example as a user types it.
std::string example_line(const Example& example);
/// The exit codes of every command.
const std::vector<ExitStatus>& common_exit_codes();
/// Those and its own.
std::map<int, std::string> exit_codes_of(const Command& command);
/// Of --config, which all commands have.
std::string config_help();

}  // namespace ventris
