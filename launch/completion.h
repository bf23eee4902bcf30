// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launch/command.h"

namespace ventris {

/// A script that completes command lines of ventris in a shell, from the option tables: commands, options,
/// the words of choices, files and folders. `topics`: those of `ventris help`.
std::string bash_completion(const std::vector<Command>& commands, const std::vector<std::string>& topics);
std::string zsh_completion(const std::vector<Command>& commands, const std::vector<std::string>& topics);
std::string fish_completion(const std::vector<Command>& commands, const std::vector<std::string>& topics);

}  // namespace ventris
