// SPDX-License-Identifier: Apache-2.0
#include "launch/isa_option.h"

namespace ventris {

void add_isa_option(std::string& isa, OptionTable& table) {
  table.text(
      "isa", "NAME", isa,
      "Instruction set of the CPU kernels, one of those that 'ventris --version' lists. auto: "
      "the largest that the processors of all ranks have, or that of the environment variable VENTRIS_ISA.");
}

}  // namespace ventris
