// SPDX-License-Identifier: Apache-2.0
#include "backend/device/memory_room.h"

#include <sys/mman.h>

#include "backend/device/error.h"

namespace ventris {

void require_memory_room(size_t bytes, const char* purpose) {
  // Writable pages, which also count under strict overcommit.
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) {
    fail(ExitCode::kUnavailable,
         "{} needs at least {} bytes ({:.1f} MiB) of memory, refused by the system: "
         "use a smaller model or fewer tokens per micro-batch, free memory, or raise its limit (ulimit -v)",
         purpose, bytes, static_cast<double>(bytes) / (1 << 20));
  }
  ::munmap(base, bytes);
}

}  // namespace ventris
