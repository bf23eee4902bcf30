// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace ventris {

/// Throws Error(kUnavailable), naming `purpose`, unless the system would give this process `bytes` more
/// memory now: for libraries that crash when memory is refused. Takes microseconds; nothing stays allocated.
void require_memory_room(size_t bytes, const char* purpose);

}  // namespace ventris
