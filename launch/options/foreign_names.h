// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launch/command.h"

namespace ventris {

/// The option of `command` that corresponds to option `name` of Marian, fairseq, sacreBLEU or torchrun: "did
/// you mean --beam-size? ...". `name` has its dash if it is short ("-b") and otherwise none ("beam"). "" for
/// a name that none of them has. In a file options are written without dashes.
std::string advice_for_foreign_name(const Command& command, const std::string& name, bool in_file);

}  // namespace ventris
