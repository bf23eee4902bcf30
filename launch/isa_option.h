#pragma once

#include <string>

#include "launch/option_table.h"

namespace ventris {

/// --isa: which of the CPU's kernels (backend/instruction_set.h). `isa` starts as "auto".
void add_isa_option(std::string& isa, OptionTable& table);

}  // namespace ventris
