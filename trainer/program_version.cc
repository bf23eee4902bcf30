// SPDX-License-Identifier: Apache-2.0
#include "trainer/program_version.h"

#include <fmt/format.h>

#include "ventris_commit.h"

namespace ventris {

std::string program_version() {
  return VENTRIS_VERSION;
}

std::string program_commit() {
  return VENTRIS_COMMIT;
}

std::string program_name_and_version() {
  return fmt::format("ventris {} (commit {})", program_version(), program_commit());
}

}  // namespace ventris
