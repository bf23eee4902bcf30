// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ventris {

class Communicator;
class MpiEnvironment;

/// The facts that one rank finds on its machine.
struct RankFacts {
  std::string host;
  int cores = 1;  // of its affinity mask, shared fairly with other ranks
  int host_cores = 1;
  int64_t memory = 0;  // bytes that processes of the host may use
  std::string program;
  std::string mpi;
  std::string nccl;
  std::string driver;  // "580.65.06 for CUDA 13.0", its own version where known; "" without one
  std::string device;  // name, or "" on the CPU
  std::vector<std::string> faults = {};  // of two training steps on its GPU
};

struct DoctorReport {
  std::vector<RankFacts> ranks = {};
  // Of sums over the ranks, measured by rank 0; 0 if there is one rank, or they failed.
  double sum_latency = 0.0;    // seconds of a sum of one number
  double sum_bandwidth = 0.0;  // bytes a second in and out of a rank: 2 (W - 1) / W times those of the sum
  std::vector<std::string> problems = {};  // causes for which training would fail
  std::vector<std::string> warnings = {};
};

struct DoctorOptions {
  std::string device = "auto";
  std::string preset = "tiny";  // whose model takes the two steps on a GPU
};

/// Checks the machines of all ranks; all of them must call it and get the same problems and warnings.
/// `program` is this one with its version.
DoctorReport examine(Communicator& communicator, const MpiEnvironment& environment,
                     const DoctorOptions& options, const std::string& program);

/// Appends what the facts of the ranks show.
void judge(DoctorReport& report);

/// A page for a person, which ends with the verdict, and one JSON object.
std::string doctor_page(const DoctorReport& report);
std::string doctor_json(const DoctorReport& report);

}  // namespace ventris
