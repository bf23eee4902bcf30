#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ventris {

class MpiEnvironment;

/// The affinity mask of this process: one byte for each core of the system, 1 where the process may run.
std::vector<uint8_t> affinity_mask();

/// Cores for process `which` of the masks of all processes of a host: each core of its mask counts 1 over the
/// number of masks that hold it. Rounded down, but at least 1.
int core_share(const std::vector<std::vector<uint8_t>>& masks, size_t which);

/// The name of this host, or "unknown".
std::string host_name();

/// CPU threads for a rank: `requested` if positive, else the cores of this process' affinity mask, shared
/// among the ranks of the host where the mask holds cores that they share (at least 1).
int threads_per_rank(const MpiEnvironment& environment, int requested);

}  // namespace ventris
