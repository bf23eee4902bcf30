#include "trainer/program_version.h"

#include <fmt/format.h>

#include "ventris_commit.h"

namespace ventris {

std::string program_version() {
  return VENTRIS_VERSION;
}

std::string program_name_and_version() {
  return fmt::format("ventris {} (commit {})", program_version(), VENTRIS_COMMIT);
}

}  // namespace ventris
