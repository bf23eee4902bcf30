#pragma once

#include <string>
#include <vector>

#include "launch/command.h"

namespace ventris {

/// The words with every alias of an option ("-i") replaced by its name ("--input"), up to "--". Throws
/// Error(kUsage) for another word with a dash, which would be taken for a file: not for "-" alone, not for a
/// negative number, and not where an option waits for its one value.
std::vector<std::string> spelled_in_full(const Command& command, const std::vector<std::string>& words);

/// Whether the next word is the value of this one, "--name", whatever it looks like.
bool waits_for_value(const Command& command, const std::string& word);

/// What to do about an option that the command does not have: the name that was meant, or where all are
/// listed. `name` as for advice_for_foreign_name(). In a file options are written without dashes.
std::string suggestion(const Command& command, const std::string& name, bool in_file = false);

/// The candidate nearest to `word` by edit distance, "" if none is near.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace ventris
