// SPDX-License-Identifier: Apache-2.0
#include "comm/affinity.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "comm/mpi_environment.h"

namespace ventris {

std::vector<uint8_t> affinity_mask() {
  std::vector<uint8_t> mask(CPU_SETSIZE, 0);
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) {
    mask[0] = 1;
    return mask;
  }
  for (size_t core = 0; core < mask.size(); ++core) mask[core] = CPU_ISSET(core, &set) ? 1 : 0;
  return mask;
}

int core_share(const std::vector<std::vector<uint8_t>>& masks, size_t which) {
  double share = 0.0;
  for (size_t core = 0; core < masks[which].size(); ++core) {
    if (masks[which][core] == 0) continue;
    const auto holders =
        std::count_if(masks.begin(), masks.end(), [core](const auto& mask) { return mask[core] != 0; });
    share += 1.0 / static_cast<double>(holders);
  }
  constexpr double kRounding = 1e-6;  // a sum of thirds
  return std::max(1, static_cast<int>(std::floor(share + kRounding)));
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

int threads_per_rank(const MpiEnvironment& environment, int requested) {
  return requested > 0 ? requested : environment.core_share();
}

}  // namespace ventris
