#pragma once

#include <cstddef>

namespace ventris {

/// Throws Error(kUnavailable), naming `purpose`, unless the system would give this process `bytes` of memory
/// more now: for libraries that crash where it refuses. Takes microseconds; nothing stays allocated.
void require_memory_room(size_t bytes, const char* purpose);

}  // namespace ventris
