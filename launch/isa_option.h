// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launch/option_table.h"

namespace ventris {

/// --isa: the set of CPU kernels (backend/instruction_set.h). `isa` starts as "auto".
void add_isa_option(std::string& isa, OptionTable& table);

}  // namespace ventris
