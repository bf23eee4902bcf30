// SPDX-License-Identifier: Apache-2.0
#include "comm/rank_device.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include "backend/device/device.h"
#include "comm/communicator.h"
#include "comm/mpi_environment.h"
#include "comm/nccl_library.h"

namespace ventris {

namespace {

constexpr std::string_view kDeviceFile = "nvidia";  // followed by a number

struct Variable {
  const char* name;
  bool counts;  // its value is a number of GPUs; otherwise a list of their names, in which 0 is one
};
constexpr Variable kSlurmVariables[] = {{"SLURM_GPUS_ON_NODE", true},
                                        {"SLURM_GPUS", true},
                                        {"SLURM_JOB_GPUS", false},
                                        {"SLURM_STEP_GPUS", false}};

bool is_device_file(std::string_view name) {
  if (!name.starts_with(kDeviceFile)) return false;
  name.remove_prefix(kDeviceFile.size());
  return !name.empty() &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// The path of the first device file in the order of names, or "".
std::string device_file(const std::string& folder) {
  std::string first;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string path = entry.path().string();
    if (is_device_file(entry.path().filename().string()) && (first.empty() || path < first)) first = path;
  }
  return first;
}

}  // namespace

std::string gpu_evidence(const GpuEnvironment& environment) {
  if (!environment.launched) return "";
  const auto value = [&](const char* name) {
    const char* text = environment.variable(name);
    return std::string_view(text == nullptr ? "" : text);
  };
  const auto setting = [&](const char* name) { return std::string(name) + "=" + std::string(value(name)); };
  for (const Variable& variable : kSlurmVariables) {
    const std::string_view text = value(variable.name);
    if (!text.empty() && !(variable.counts && text == "0")) return setting(variable.name);
  }
  if (environment.devices > 0) {
    return std::to_string(environment.devices) +
           (environment.devices == 1 ? " CUDA device" : " CUDA devices");
  }
  constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";
  if (environment.variable(kVisible) != nullptr) {
    const std::string_view visible = value(kVisible);
    return visible.empty() || visible == "-1" || visible == "NoDevFiles" ? "" : setting(kVisible);
  }
  return device_file(environment.device_folder);
}

namespace {

/// The first evidence of the ranks with its place, the same on all of them. All ranks must call it.
std::string evidence_of_ranks(Communicator& control, const MpiEnvironment& environment, int visible) {
  const bool launched = environment.active() || std::getenv("SLURM_JOB_ID") != nullptr;
  const std::string own =
      gpu_evidence({.launched = launched, .devices = visible, .variable = [](const char* name) {
                      return static_cast<const char*>(std::getenv(name));
                    }});
  if (control.size() == 1) return own.empty() ? "" : fmt::format("{}: {}", environment.host(), own);
  const std::vector<std::string> all = control.all_gather(own);
  const std::vector<std::string> hosts = control.all_gather(environment.host());
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty()) return fmt::format("rank {} on {}: {}", rank, hosts[rank], all[rank]);
  }
  return "";
}

/// The reason why the job cannot compute on CUDA (RankDevice::reason), with this rank on device `index` of
/// `visible`. All ranks must call it.
std::string reason_of_ranks(Communicator& control, const MpiEnvironment& environment, int visible,
                            int index) {
  const std::string reason = cuda_unavailable_reason(index);
  if (control.size() == 1) return reason;

  const std::vector<std::string> reasons =
      control.all_gather(reason.empty() ? nccl_unavailable_reason() : reason);
  const std::vector<std::string> hosts = control.all_gather(environment.host());
  for (size_t rank = 0; rank < reasons.size(); ++rank) {
    if (!reasons[rank].empty()) return fmt::format("rank {} on {}: {}", rank, hosts[rank], reasons[rank]);
  }
  const std::string shared = shared_device(control, index);
  if (shared.empty()) return "";
  // For the first host with fewer devices than ranks, the same on all ranks.
  const std::vector<std::string> devices = control.all_gather(std::to_string(visible));
  const std::vector<std::string> ranks = control.all_gather(std::to_string(environment.local_size()));
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    if (std::stoi(ranks[rank]) <= std::stoi(devices[rank])) continue;
    return fmt::format(
        "{}: {} has {} ranks and {} CUDA {} for them. "
        "Start at most as many ranks on a host as it has devices, e.g. mpirun --map-by ppr:{}:node",
        shared, hosts[rank], ranks[rank], devices[rank], devices[rank] == "1" ? "device" : "devices",
        devices[rank]);
  }
  return shared + ". Give each rank its own device; CUDA_VISIBLE_DEVICES selects the devices of a rank";
}

}  // namespace

RankDevice find_rank_device(Communicator& control, const MpiEnvironment& environment) {
  const int visible = cuda_device_count();
  RankDevice found;
  found.index = visible > 0 ? environment.local_rank() % visible : 0;
  found.reason = reason_of_ranks(control, environment, visible, found.index);
  if (!found.reason.empty()) found.evidence = evidence_of_ranks(control, environment, visible);
  return found;
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
