// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launch/command.h"

namespace ventris {

/// A script that completes command lines of ventris in bash, zsh or fish, from the option tables: commands,
/// options, the words of choices, files, and the topics of `ventris help`. Throws Error(kUsage) for another
/// shell.
std::string completion(const std::string& shell, const std::vector<Command>& commands,
                       const std::vector<std::string>& help_topics);

}  // namespace ventris
