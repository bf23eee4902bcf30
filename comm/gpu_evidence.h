// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

namespace ventris {

/// What a process finds about GPUs without using them.
struct GpuSurroundings {
  bool launched = false;                                  // by mpirun or srun, or inside a Slurm job
  int devices = 0;                                        // listed by the driver, usable or not
  std::function<const char*(const char* name)> variable;  // of the environment, or null
  std::string device_folder = "/dev";
};

/// Evidence that a launched process was meant to compute on a GPU, e.g. "SLURM_GPUS_ON_NODE=8" or
/// "/dev/nvidia0": GPUs that Slurm gave to the job, devices of the driver, CUDA_VISIBLE_DEVICES, or device
/// files. "" without any, and for a process that was not launched. CUDA_VISIBLE_DEVICES that is empty, -1 or
/// NoDevFiles hides device files.
std::string gpu_evidence(const GpuSurroundings& surroundings);

}  // namespace ventris
