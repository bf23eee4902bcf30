// SPDX-License-Identifier: Apache-2.0
#include "backend/cache_size.h"

#include <unistd.h>

namespace ventris {

int64_t level1_cache_bytes() {
  constexpr int64_t kUnknown = int64_t{32} << 10;
#if defined(_SC_LEVEL1_DCACHE_SIZE)
  static const int64_t bytes = sysconf(_SC_LEVEL1_DCACHE_SIZE);
  if (bytes > 0) return bytes;
#endif
  return kUnknown;
}

}  // namespace ventris
