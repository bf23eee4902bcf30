#include "tests/support/source_dir.h"

namespace ventris::testing {

std::string source_dir() {
  return VENTRIS_SOURCE_DIR;
}

}  // namespace ventris::testing
