// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launch/command.h"

namespace ventris {

/// Parses the arguments after the command's name, and the file of --config if given (the command line wins),
/// into the variables of the command's options. Throws Error: kUsage for an error on the command line,
/// kBadConfiguration for one in the file, kMissingInput if that file cannot be read.
void parse_options(const Command& command, const std::vector<std::string>& words);

}  // namespace ventris
