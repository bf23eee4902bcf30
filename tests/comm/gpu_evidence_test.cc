// SPDX-License-Identifier: Apache-2.0
#include "comm/rank_device.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

namespace ventris {
namespace {

using Variables = std::map<std::string, std::string>;

/// A folder with the files of a machine with two GPUs, or with the other files of its driver alone.
class DeviceFolder {
 public:
  explicit DeviceFolder(bool gpus)
      : path_(std::filesystem::temp_directory_path() / ("ventris-devices-" + std::to_string(::getpid()))) {
    std::filesystem::create_directory(path_);
    for (const char* name : {"nvidiactl", "nvidia-uvm", "nvidia"}) std::ofstream(path_ / name);
    if (!gpus) return;
    for (const char* name : {"nvidia1", "nvidia0"}) std::ofstream(path_ / name);
  }
  ~DeviceFolder() { std::filesystem::remove_all(path_); }
  DeviceFolder(const DeviceFolder&) = delete;
  DeviceFolder& operator=(const DeviceFolder&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

std::string evidence(bool launched, int devices, const Variables& variables, const std::string& folder) {
  return gpu_evidence({.launched = launched,
                       .devices = devices,
                       .variable =
                           [&](const char* name) {
                             const auto found = variables.find(name);
                             return found == variables.end() ? nullptr : found->second.c_str();
                           },
                       .device_folder = folder});
}

TEST(GpuEvidence, IsThatOfTheSchedulerTheUserTheDriverOrTheMachine) {
  const DeviceFolder none(false);
  const struct {
    Variables variables;
    int devices;
    std::string expected;
  } cases[] = {
      {{}, 0, ""},
      {{{"SLURM_GPUS_ON_NODE", "8"}}, 0, "SLURM_GPUS_ON_NODE=8"},
      {{{"SLURM_GPUS_ON_NODE", "0"}}, 0, ""},
      {{{"SLURM_GPUS", "a100:16"}}, 0, "SLURM_GPUS=a100:16"},
      {{{"SLURM_GPUS", ""}}, 0, ""},
      {{{"SLURM_JOB_GPUS", "0"}}, 0, "SLURM_JOB_GPUS=0"},  // the device 0
      {{{"SLURM_STEP_GPUS", "2,3"}}, 0, "SLURM_STEP_GPUS=2,3"},
      {{{"CUDA_VISIBLE_DEVICES", "0"}}, 0, "CUDA_VISIBLE_DEVICES=0"},
      {{{"CUDA_VISIBLE_DEVICES", "-1"}}, 0, ""},
      {{{"CUDA_VISIBLE_DEVICES", "NoDevFiles"}}, 0, ""},
      {{{"CUDA_VISIBLE_DEVICES", ""}}, 0, ""},
      {{{"CUDA_VISIBLE_DEVICES", "1,2"}}, 2, "2 CUDA devices"},
      {{{"CUDA_VISIBLE_DEVICES", "-1"}, {"SLURM_JOB_GPUS", "1"}}, 0, "SLURM_JOB_GPUS=1"},
      {{}, 1, "1 CUDA device"},
      {{}, 2, "2 CUDA devices"},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(evidence(true, one.devices, one.variables, none.path()), one.expected);
    EXPECT_EQ(evidence(false, one.devices, one.variables, none.path()), "");
  }
  EXPECT_EQ(evidence(true, 0, {}, none.path() + "/missing"), "");
}

TEST(GpuEvidence, IsADeviceFileUnlessDevicesAreHidden) {
  const DeviceFolder two(true);
  EXPECT_EQ(evidence(true, 0, {}, two.path()), two.path() + "/nvidia0");
  EXPECT_EQ(evidence(false, 0, {}, two.path()), "");
  for (const char* hidden : {"", "-1", "NoDevFiles"})
    EXPECT_EQ(evidence(true, 0, {{"CUDA_VISIBLE_DEVICES", hidden}}, two.path()), "") << hidden;
}

}  // namespace
}  // namespace ventris
