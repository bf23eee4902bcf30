// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ventris {

/// Bytes of the data cache nearest to a core, or 32 KiB if the system does not say.
int64_t level1_cache_bytes();

}  // namespace ventris
