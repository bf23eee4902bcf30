// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ventris {

class Communicator;
class MpiEnvironment;

/// The facts that one rank finds on its machine. Limits are in bytes or files; -1 is no limit. All sizes are
/// in bytes.
struct RankFacts {
  std::string host;
  int local_rank = 0;
  int local_size = 1;
  int cores = 0;       // of its affinity mask
  int core_share = 1;  // of these, shared fairly with other ranks
  int host_cores = 0;
  std::string program;
  std::string mpi;
  std::string thread_level;  // "" if MPI is not active
  bool root = false;         // runs for root
  std::string nccl;
  std::string cuda;           // what the program was built with, or "no"
  std::string driver;         // "580.65.06 for CUDA 13.0", its own version where known; ""
  std::string device;         // name, or "" on the CPU
  std::string device_reason;  // the reason why CUDA does not work for the job, or ""
  std::string gpu_evidence;   // with it: why the job was meant to use GPUs (comm/rank_device.h), or ""
  std::string identity;       // of the device (cuda_device_identity())
  std::vector<std::string> seen_devices = {};     // identities of all devices that the rank sees
  std::vector<std::string> reached_devices = {};  // of these, those that its device reaches directly
  int64_t open_files = -1;
  int64_t locked_memory = -1;
  int64_t core_files = -1;
  int64_t file_size = -1;
  int64_t shared_memory_free = -1;            // of /dev/shm; -1: missing
  double clock_ahead = 0.0;                   // seconds before the clock of rank 0
  double clock_error = 0.0;                   // the bound on the error of clock_ahead, seconds
  double copy_rate = 0.0;                     // bytes a second of a copy in memory, all ranks in parallel
  double link_rate = 0.0;                     // bytes a second of the fastest network device; 0: unknown
  std::vector<std::string> wrong_steps = {};  // compare_steps() on its GPU
  std::string step_error;                     // the reason why they could not be compared, or ""
  bool sees_folder = false;                   // could read the file of rank 0
  std::string folder_error;                   // the failure there, or ""
  std::string folder_lock_error;              // the reason why flock fails there, or ""
  int64_t folder_free = -1;
};

/// Sums over the ranks on the device of training, measured by rank 0.
struct SumFacts {
  std::string error;       // of the transport, or the first wrong sum; "" if all are right
  double latency = 0.0;    // seconds of a sum of one number
  double bandwidth = 0.0;  // bytes a second in and out of a rank: 2 (W - 1) / W times those of the sum
};

struct DoctorFacts {
  std::string device;            // --device
  std::string folder;            // --model-dir, or ""
  int64_t checkpoint_bytes = 0;  // of the largest checkpoint in the folder; 0: none
  std::vector<RankFacts> ranks = {};
  SumFacts sums = {};
};

struct DoctorOptions {
  std::string device = "auto";
  std::string preset = "tiny";  // whose model takes the two steps on a GPU
  std::string folder;
};

/// Checks the machines of all ranks; all of them must call it and get the same result. `program` is this one
/// with its version. Rank 0 writes a small file to the folder, which is created if missing; both are removed.
DoctorFacts gather_doctor_facts(Communicator& communicator, const MpiEnvironment& environment,
                                const DoctorOptions& options, const std::string& program);

/// The facts of a rank as one JSON object, and back.
std::string to_json(const RankFacts& facts);
RankFacts rank_facts_from_json(const std::string& json);

}  // namespace ventris
