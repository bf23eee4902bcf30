#include "launch/isa_option.h"

namespace ventris {

void add_isa_option(std::string& isa, OptionTable& table) {
  table.text(
      "isa", "NAME", isa,
      "Instructions that the CPU's kernels use, one of those that 'ventris --version' names. auto: "
      "the most that the processor of every rank has, or those of the environment variable VENTRIS_ISA.");
}

}  // namespace ventris
