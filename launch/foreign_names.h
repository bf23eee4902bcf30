#pragma once

#include <string>

#include "launch/command.h"

namespace ventris {

/// What `command` has in the place of an option of Marian, fairseq or sacreBLEU, where `name` is one of
/// those: "did you mean --beam-size? ...", with what is different. `name` has its dashes if it is short
/// ("-b") and none else ("beam"). "" for a name that none of them has. In a file options are written without
/// dashes.
std::string advice_for_foreign_name(const Command& command, const std::string& name, bool in_file);

}  // namespace ventris
