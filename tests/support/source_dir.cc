// SPDX-License-Identifier: Apache-2.0
#include "tests/support/source_dir.h"

#include <cstdlib>

namespace ventris::testing {

std::string source_dir() {
  const char* moved = std::getenv("VENTRIS_SOURCE_DIR");
  return moved != nullptr && *moved != '\0' ? moved : VENTRIS_SOURCE_DIR;
}

}  // namespace ventris::testing
