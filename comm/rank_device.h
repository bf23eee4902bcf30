// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

namespace ventris {

class Communicator;
class MpiEnvironment;

/// What a process finds about GPUs without using them.
struct GpuEnvironment {
  bool launched = false;                                  // by mpirun or srun, or inside a Slurm job
  int devices = 0;                                        // listed by the driver, usable or not
  std::function<const char*(const char* name)> variable;  // of the environment, or null
  std::string device_folder = "/dev";
};

/// Evidence that a launched process was meant to compute on a GPU, e.g. "SLURM_GPUS_ON_NODE=8" or
/// "/dev/nvidia0": GPUs that Slurm gave to the job, devices of the driver, CUDA_VISIBLE_DEVICES, or device
/// files. "" without any, and for a process that was not launched. CUDA_VISIBLE_DEVICES that is empty, -1 or
/// NoDevFiles hides device files.
std::string gpu_evidence(const GpuEnvironment& environment);

/// The CUDA device of a rank.
struct RankDevice {
  int index = 0;
  /// The reason why the job cannot compute on CUDA, the same text on every rank, or "" if every rank has its
  /// own working device. Names the first rank and host that cannot, or the ranks that would share a device.
  std::string reason;
  /// With a reason: the evidence that the job was meant to compute on GPUs (gpu_evidence()), with the
  /// first rank and host that has some, the same text on every rank; "" without.
  std::string evidence;
};

/// The ranks of a host take its devices in order, the first rank the first device, whether all ranks see all
/// devices or CUDA_VISIBLE_DEVICES gives each its own. All ranks must call it.
RankDevice find_rank_device(Communicator& control, const MpiEnvironment& environment);

/// "" if the CUDA devices of the ranks are distinct, otherwise a text that names the first two ranks that
/// share one, and the device. Ranks with different values of the environment variable NCCL_HOSTID count as on
/// different hosts, also for NCCL, and may share. All ranks must call it.
std::string shared_device(Communicator& control, int index);

}  // namespace ventris
