// SPDX-License-Identifier: Apache-2.0
#include "trainer/checks/doctor.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

#include "backend/device/context.h"
#include "backend/device/device.h"
#include "backend/device/error.h"
#include "backend/device/transfer.h"
#include "comm/communicator.h"
#include "comm/mpi_environment.h"
#include "comm/nccl_library.h"
#include "comm/rank_device.h"
#include "data/io/json_text.h"
#include "trainer/checks/doctor_steps.h"
#include "trainer/checks/host_memory.h"
#include "trainer/json_text.h"
#include "trainer/text.h"

namespace ventris {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankFacts, host, cores, host_cores, memory, program, mpi, nccl, driver,
                                   device, faults)

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kCoresOfGpuRank = 4;  // its main thread, the one that packs batches, NCCL's and MPI's

std::string place(const DoctorReport& report, size_t rank) {
  return fmt::format("rank {} on {}", rank, report.ranks[rank].host);
}

/// The driver's version and that of CUDA, or "" without a driver.
std::string driver_text() {
  const std::string cuda = cuda_driver();
  if (cuda.empty()) return "";
  std::string version;  // missing where /sys is that of another machine
  if (std::ifstream("/sys/module/nvidia/version") >> version) version += " ";
  return fmt::format("{}for CUDA {}", version, cuda);
}

RankFacts facts_of_host(const MpiEnvironment& environment, const std::string& program) {
  RankFacts facts;
  facts.host = environment.host();
  facts.cores = environment.core_share();
  facts.host_cores = static_cast<int>(std::thread::hardware_concurrency());
  facts.memory = memory_of_this_host();
  facts.program = program;
  facts.mpi = environment.active()
                  ? fmt::format("{}, thread level {}", mpi_library(), environment.thread_level())
                  : fmt::format("{}, not active: one process without a launcher", mpi_library());
  facts.nccl = nccl_library();
  facts.driver = driver_text();
  return facts;
}

/// The device on which this rank would compute; the CPU if CUDA does not work, and then why.
ContextOptions find_device(Communicator& communicator, const MpiEnvironment& environment,
                           const std::string& device, RankFacts& facts, DoctorReport& report) {
  ContextOptions options = {.threads = 1};
  if (device == "cpu") return options;
  const RankDevice found = find_rank_device(communicator, environment);
  if (found.reason.empty()) {
    if (communicator.size() > 1) facts.nccl = loaded_nccl();
    facts.device = cuda_device_name(found.index);
    options.device = Device::kCuda;
    options.device_index = found.index;
  } else if (device == "cuda") {
    report.problems.push_back(found.reason);
  } else if (!found.evidence.empty()) {
    report.problems.push_back(
        fmt::format("the job has GPUs ({}) and cannot use them: {}", found.evidence, found.reason));
  } else if (cuda_build() != "no") {
    report.warnings.push_back("the CPU computes: " + found.reason);
  }
  return options;
}

/// Sums whole numbers over the ranks in memory of their devices, checks the sums, which are exact in f32, and
/// measures the time of the smallest and the largest.
void try_sums(Communicator& communicator, const ContextOptions& options, DoctorReport& report) {
  constexpr int64_t kMax = int64_t{4} << 20;
  constexpr int kRounds = 10;
  Context context(options);
  std::unique_ptr<Communicator> of_devices;
  try {
    of_devices = make_device_communicator(communicator, context);
  } catch (const LateRanks&) {
    throw;
  } catch (const Error& error) {  // on all ranks
    report.problems.push_back(error.what());
    return;
  }
  Communicator& sums = of_devices ? *of_devices : communicator;
  const int ranks = sums.size();
  std::vector<float> host(static_cast<size_t>(kMax));
  Arena memory(context.device(), host.size() * sizeof(float), "a trial of sums");
  const Tensor device = memory.allocate(1, kMax, DType::kF32);
  for (const int64_t count : {int64_t{1}, int64_t{65537}, kMax}) {
    const Tensor part = device.col_range(0, count);
    const size_t bytes = static_cast<size_t>(count) * sizeof(float);
    for (int64_t i = 0; i < count; ++i)
      host[static_cast<size_t>(i)] = static_cast<float>(sums.rank() + i % 7);
    copy_to_device(context, part.data, host.data(), bytes);
    sums.all_reduce_sum(part);
    copy_to_host(context, host.data(), part.data, bytes);
    std::string wrong;
    for (int64_t i = 0; i < count && wrong.empty(); ++i) {
      const auto expected = static_cast<float>(ranks * (ranks - 1) / 2 + ranks * (i % 7));
      const float found = host[static_cast<size_t>(i)];
      if (found == expected) continue;
      wrong = fmt::format("a sum of {} numbers over the ranks is wrong: element {} is {} on rank {}, not {}",
                          count, i, found, sums.rank(), expected);
    }
    for (const std::string& found : communicator.all_gather(wrong)) {
      if (found.empty()) continue;
      report.problems.push_back(found);
      return;
    }
    synchronize(context);
    sums.barrier();
    const Clock::time_point begin = Clock::now();
    for (int round = 0; round < kRounds; ++round) sums.all_reduce_sum(part);
    synchronize(context);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count() / kRounds;
    if (count == 1) report.sum_latency = seconds;
    report.sum_bandwidth = 2.0 * (ranks - 1.0) / ranks * static_cast<double>(bytes) / seconds;
  }
}

/// A text if a fact of a rank differs from that of rank 0.
void compare(std::vector<std::string>& texts, const DoctorReport& report, std::string RankFacts::*fact,
             const char* what) {
  for (size_t rank = 1; rank < report.ranks.size(); ++rank) {
    const std::string& first = report.ranks[0].*fact;
    const std::string& other = report.ranks[rank].*fact;
    if (other == first) continue;
    texts.push_back(
        fmt::format("{} differ: {} has \"{}\", rank 0 has \"{}\"", what, place(report, rank), other, first));
    return;
  }
}

std::string text_of(const RankFacts& facts) {
  const std::string device = facts.device.empty() ? "CPU" : facts.device + ", driver " + facts.driver;
  return fmt::format("{}, {} of {}, {}, {}", facts.host, facts.cores, counted(facts.host_cores, "core"),
                     bytes_text(facts.memory), device);
}

}  // namespace

DoctorReport examine(Communicator& communicator, const MpiEnvironment& environment,
                     const DoctorOptions& options, const std::string& program) {
  DoctorReport report;
  RankFacts own = facts_of_host(environment, program);
  const ContextOptions device = find_device(communicator, environment, options.device, own, report);
  if (device.device == Device::kCuda)
    own.faults = faults_of_steps(device, own.cores, model_of_steps(options.preset));
  if (communicator.size() > 1) try_sums(communicator, device, report);
  for (const std::string& rank : communicator.all_gather(json_text(nlohmann::json(own))))
    report.ranks.push_back(data::read_json(rank).get<RankFacts>());
  judge(report);
  return report;
}

void judge(DoctorReport& report) {
  compare(report.problems, report, &RankFacts::program, "the programs");
  compare(report.problems, report, &RankFacts::mpi, "the MPI libraries");
  const auto has_device = [](const RankFacts& rank) { return !rank.device.empty(); };
  if (std::any_of(report.ranks.begin(), report.ranks.end(), has_device)) {
    compare(report.problems, report, &RankFacts::nccl, "the versions of NCCL");
    compare(report.warnings, report, &RankFacts::driver, "the CUDA drivers");
  }
  compare(report.warnings, report, &RankFacts::device, "the devices");
  bool few_cores = false;  // of a rank before
  for (size_t rank = 0; rank < report.ranks.size(); ++rank) {
    const RankFacts& own = report.ranks[rank];
    if (!own.faults.empty()) report.problems.push_back(place(report, rank) + " " + own.faults.front());
    if (few_cores || own.device.empty() || own.cores >= kCoresOfGpuRank) continue;
    few_cores = true;
    report.warnings.push_back(
        fmt::format("{} has {}; a rank with a GPU needs {} or more: mpirun --bind-to none, or "
                    "--map-by ppr:N:node:PE=4; under Slurm --cpus-per-task",
                    place(report, rank), counted(own.cores, "core"), kCoresOfGpuRank));
  }
}

std::string doctor_page(const DoctorReport& report) {
  std::string text;
  const auto row = [&](const std::string& name, const std::string& value) {
    text += fmt::format("{:<12} {}\n", name, value);
  };
  const std::vector<RankFacts>& ranks = report.ranks;
  row("program", ranks[0].program);
  row("MPI", ranks[0].mpi);
  row("NCCL", ranks[0].nccl);
  for (size_t begin = 0, end = 0; begin < ranks.size(); begin = end) {
    while (end < ranks.size() && text_of(ranks[end]) == text_of(ranks[begin])) ++end;
    row(end == begin + 1 ? fmt::format("rank {}", begin) : fmt::format("ranks {}-{}", begin, end - 1),
        text_of(ranks[begin]));
  }
  const auto agrees = [](const RankFacts& rank) { return !rank.device.empty() && rank.faults.empty(); };
  if (std::all_of(ranks.begin(), ranks.end(), agrees))
    row("steps", "losses and gradients of two training steps in f32 and bf16 agree with the CPU's");
  if (report.sum_bandwidth > 0.0) {
    row("sums", fmt::format("right; {:.3g} GB/s in and out of a rank, {:.0f} us for one number",
                            1e-9 * report.sum_bandwidth, 1e6 * report.sum_latency));
  }
  for (const std::string& warning : report.warnings) row("warning", warning);
  for (const std::string& problem : report.problems) row("problem", problem);
  return text + fmt::format("{}: {}\n", counted(std::ssize(ranks), "rank"),
                            report.problems.empty() ? "fit to train" : "not fit to train");
}

std::string doctor_json(const DoctorReport& report) {
  return json_text(nlohmann::json{{"fit", report.problems.empty()},
                                  {"problems", report.problems},
                                  {"warnings", report.warnings},
                                  {"ranks", report.ranks},
                                  {"sum_latency_seconds", report.sum_latency},
                                  {"sum_bytes_per_second", report.sum_bandwidth}});
}

}  // namespace ventris
