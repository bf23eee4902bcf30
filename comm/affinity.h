#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ventris {

/// The affinity mask of this process: one byte for each core of the system, 1 where the process may run.
std::vector<uint8_t> affinity_mask();

/// Cores for process `which` of the masks of all processes of a host: each core of its mask counts 1 over the
/// number of masks that hold it. Rounded down, but at least 1.
int core_share(const std::vector<std::vector<uint8_t>>& masks, size_t which);

/// The name of this host, or "unknown".
std::string host_name();

}  // namespace ventris
