#include "comm/rank_device.h"

#include <fmt/core.h>

#include <cstdlib>
#include <vector>

#include "backend/device.h"
#include "comm/communicator.h"
#include "comm/mpi_environment.h"
#include "comm/nccl_library.h"

namespace ventris {

RankDevice find_rank_device(Communicator& control, const MpiEnvironment& environment) {
  const int visible = cuda_device_count();
  const int index = visible > 0 ? environment.local_rank() % visible : 0;
  const std::string reason = cuda_unavailable_reason(index);
  if (control.size() == 1) return {index, reason};

  const std::vector<std::string> reasons =
      control.all_gather(reason.empty() ? nccl_unavailable_reason() : reason);
  const std::vector<std::string> hosts = control.all_gather(environment.host());
  for (size_t rank = 0; rank < reasons.size(); ++rank) {
    if (!reasons[rank].empty())
      return {index, fmt::format("rank {} on {}: {}", rank, hosts[rank], reasons[rank])};
  }
  const std::string shared = shared_device(control, index);
  if (shared.empty()) return {index, ""};
  // For the first host with fewer devices than ranks, the same on all ranks.
  const std::vector<std::string> devices = control.all_gather(std::to_string(visible));
  const std::vector<std::string> ranks = control.all_gather(std::to_string(environment.local_size()));
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    if (std::stoi(ranks[rank]) <= std::stoi(devices[rank])) continue;
    return {index,
            fmt::format(
                "{}: {} has {} ranks and {} CUDA {} for them. "
                "Start at most as many ranks on a host as it has devices, e.g. mpirun --map-by ppr:{}:node",
                shared, hosts[rank], ranks[rank], devices[rank], devices[rank] == "1" ? "device" : "devices",
                devices[rank])};
  }
  return {index,
          shared + ". Give each rank its own device; CUDA_VISIBLE_DEVICES selects the devices of a rank"};
}

std::string shared_device(Communicator& control, int index) {
  const char* host_id = std::getenv("NCCL_HOSTID");
  const std::vector<std::string> identities = control.all_gather(cuda_device_identity(index));
  const std::vector<std::string> names = control.all_gather(cuda_device_name(index));
  const std::vector<std::string> host_ids = control.all_gather(host_id == nullptr ? "" : host_id);
  for (size_t second = 1; second < identities.size(); ++second) {
    for (size_t first = 0; first < second; ++first) {
      if (identities[first] != identities[second] || host_ids[first] != host_ids[second]) continue;
      return fmt::format("ranks {} and {} would share one CUDA device, {} ({})", first, second,
                         identities[first], names[first]);
    }
  }
  return {};
}

}  // namespace ventris
