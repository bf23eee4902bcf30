// SPDX-License-Identifier: Apache-2.0
#include "trainer/host_memory.h"

#include <unistd.h>

#include <fstream>
#include <string>

namespace ventris {

HostMemory host_memory() {
  HostMemory memory;
  int64_t size = 0;
  int64_t pages = 0;
  if (std::ifstream("/proc/self/statm") >> size >> pages) memory.resident = pages * ::sysconf(_SC_PAGESIZE);
  std::ifstream info("/proc/meminfo");
  int64_t available = 0;
  std::string key;
  // "MemTotal:  16384 kB".
  for (int64_t kib = 0; info >> key >> kib; info.ignore(64, '\n')) {
    if (key == "MemTotal:") memory.total = kib * 1024;
    if (key != "MemAvailable:") continue;
    available = kib * 1024;
    break;
  }
  memory.used = available > 0 ? memory.total - available : 0;
  return memory;
}

int64_t memory_of_this_host() {
  const int64_t all = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  std::ifstream file("/sys/fs/cgroup/memory.max");
  int64_t limit = 0;
  return file >> limit && limit > 0 && limit < all ? limit : all;
}

}  // namespace ventris
