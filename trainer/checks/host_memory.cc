// SPDX-License-Identifier: Apache-2.0
#include "trainer/checks/host_memory.h"

#include <unistd.h>

#include <fstream>

namespace ventris {

int64_t memory_of_this_host() {
  const int64_t all = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  std::ifstream file("/sys/fs/cgroup/memory.max");
  int64_t limit = 0;
  return file >> limit && limit > 0 && limit < all ? limit : all;
}

}  // namespace ventris
