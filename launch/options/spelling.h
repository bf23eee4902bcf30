// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launch/command.h"

namespace ventris {

/// The words with every alias of an option ("-i") replaced by its name ("--input"), up to "--". Throws
/// Error(kUsage) for any other word with a dash, which would be parsed as a file; except for "-" alone, a
/// negative number, or the single value of an option.
std::vector<std::string> spelled_in_full(const Command& command, const std::vector<std::string>& words);

/// The name of the option of which "--<name>" is another spelling, or `name`.
std::string name_of_alias(const Command& command, const std::string& name);

/// Whether the next word is the value of this one, "--name", in any form.
bool waits_for_value(const Command& command, const std::string& word);

/// Advice for an option that the command does not have: a similar name, or how to list all. `name` as for
/// advice_for_foreign_name(). In a file options are written without dashes.
std::string suggestion(const Command& command, const std::string& name, bool in_file = false);

/// The candidate nearest to `word` by edit distance, "" if none is similar.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace ventris
