// SPDX-License-Identifier: Apache-2.0
#include "comm/gpu_evidence.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

namespace ventris {
namespace {

constexpr std::string_view kDeviceFile = "nvidia";  // followed by a number

struct Variable {
  const char* name;
  bool counts;  // its value is a number of GPUs; otherwise a list of their names, in which 0 is one
};
constexpr Variable kOfSlurm[] = {{"SLURM_GPUS_ON_NODE", true},
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

std::string gpu_evidence(const GpuSurroundings& surroundings) {
  if (!surroundings.launched) return "";
  const auto value = [&](const char* name) {
    const char* text = surroundings.variable(name);
    return std::string_view(text == nullptr ? "" : text);
  };
  const auto setting = [&](const char* name) { return std::string(name) + "=" + std::string(value(name)); };
  for (const Variable& variable : kOfSlurm) {
    const std::string_view text = value(variable.name);
    if (!text.empty() && !(variable.counts && text == "0")) return setting(variable.name);
  }
  if (surroundings.devices > 0) {
    return std::to_string(surroundings.devices) +
           (surroundings.devices == 1 ? " CUDA device" : " CUDA devices");
  }
  constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";
  if (surroundings.variable(kVisible) != nullptr) {
    const std::string_view visible = value(kVisible);
    return visible.empty() || visible == "-1" || visible == "NoDevFiles" ? "" : setting(kVisible);
  }
  return device_file(surroundings.device_folder);
}

}  // namespace ventris
