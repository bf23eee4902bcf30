// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ventris {

class MpiEnvironment;

/// The affinity mask of this process: one byte for each core of the system, 1 if the process may run there.
std::vector<uint8_t> affinity_mask();

/// Cores for process `which` of the masks of all processes of a host: each core of its mask counts as 1
/// divided by the number of masks that contain it. Rounded down, but at least 1.
int core_share(const std::vector<std::vector<uint8_t>>& masks, size_t which);

/// The name of this host, or "unknown".
std::string host_name();

/// CPU threads for a rank: `requested` if positive, otherwise the cores of the affinity mask of this process,
/// with cores that ranks of the host share divided among them (at least 1).
int threads_per_rank(const MpiEnvironment& environment, int requested);

}  // namespace ventris
