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

}  // namespace ventris
