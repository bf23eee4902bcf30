// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launch/command.h"

namespace ventris {

/// Manual pages, in the macros of man(7): ventris(1), and ventris-train(1) for a command.
std::string program_man_page(const std::vector<Command>& commands);
std::string command_man_page(const Command& command);

}  // namespace ventris
