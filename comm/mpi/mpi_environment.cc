// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi_environment.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>
#include <vector>

#include "backend/device/error.h"
#include "comm/affinity.h"
#include "comm/guard.h"
#include "comm/mpi/check_mpi.h"

namespace ventris {
namespace {

constexpr std::chrono::milliseconds kTurn{400};  // between ranks that would report the same
constexpr int kTurns = 2;
constexpr std::chrono::milliseconds kEndOfJob{3000};  // after the first rank has ended
constexpr std::chrono::milliseconds kAttemptInterval{10};
constexpr double kLongestAbort = 5.0;  // seconds

bool set(const char* variable) {
  return std::getenv(variable) != nullptr;
}

// A Slurm batch script has SLURM_PROCID too, so the condition is a step of several tasks.
int slurm_step_tasks() {
  const char* text = std::getenv("SLURM_STEP_NUM_TASKS");
  return text == nullptr || !set("SLURM_PROCID") ? 0 : std::atoi(text);
}

// Number of processes according to the launcher; 0 if it does not say.
int launched_ranks() {
  for (const char* size : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    if (set(size)) return std::atoi(std::getenv(size));
  }
  return slurm_step_tasks();
}

bool started_by_launcher() {
  return set("OMPI_COMM_WORLD_SIZE") || set("PMIX_RANK") || set("PMI_RANK") || set("PMI_SIZE") ||
         slurm_step_tasks() > 1;
}

std::string name_of_level(int level) {
  switch (level) {
    case MPI_THREAD_SINGLE:
      return "MPI_THREAD_SINGLE";
    case MPI_THREAD_FUNNELED:
      return "MPI_THREAD_FUNNELED";
    case MPI_THREAD_SERIALIZED:
      return "MPI_THREAD_SERIALIZED";
    default:
      return "MPI_THREAD_MULTIPLE";
  }
}

std::string describe_stop(int signal) {
  // The launcher sends SIGTERM to all ranks when one of them has ended.
  return signal == SIGTERM ? "ventris: stopped by SIGTERM before training began; "
                             "the launcher sends it if another rank has ended\n"
                           : "ventris: stopped on request before training began\n";
}

int share_of_cores(MPI_Comm host, int local_rank, int local_size) {
  const std::vector<uint8_t> mine = affinity_mask();
  std::vector<uint8_t> all(mine.size() * static_cast<size_t>(local_size));
  const int length = static_cast<int>(mine.size());
  check_mpi(MPI_Allgather(mine.data(), length, MPI_UINT8_T, all.data(), length, MPI_UINT8_T, host),
            "MPI_Allgather");
  std::vector<std::vector<uint8_t>> masks;
  for (auto mask = all.begin(); mask != all.end(); mask += length) masks.emplace_back(mask, mask + length);
  return core_share(masks, static_cast<size_t>(local_rank));
}

}  // namespace

MpiEnvironment::MpiEnvironment(int* argc, char*** argv, const MpiLimits& limits)
    : limits_(limits), core_share_(ventris::core_share({affinity_mask()}, 0)), host_(host_name()) {
  if (!started_by_launcher()) return;
  const std::unique_ptr<Guard> started = guard("MPI_Init_thread");
  int level = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
  active_ = true;
  thread_level_ = name_of_level(level);
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
  if (size_ > 1 && level < MPI_THREAD_SERIALIZED) {
    fail(ExitCode::kUnavailable,
         "this MPI library supports {}; MPI_THREAD_SERIALIZED is needed. Use an MPI built with threads",
         thread_level_);
  }
  if (size_ == 1 && launched_ranks() > 1) {
    fail(
        ExitCode::kUnavailable,
        "the launcher started {} processes, but each is alone in its MPI job: the launcher and this MPI ({}) do "
        "not work together. Use the mpirun of this MPI; under Slurm srun --mpi=pmix, or mpirun inside the "
        "allocation",
        launched_ranks(), mpi_library());
  }
  MPI_Comm host = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host),
            "MPI_Comm_split_type");
  check_mpi(MPI_Comm_rank(host, &local_rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(host, &local_size_), "MPI_Comm_size");
  core_share_ = share_of_cores(host, local_rank_, local_size_);
  int first_rank = rank_;
  check_mpi(MPI_Bcast(&first_rank, 1, MPI_INT, 0, host), "MPI_Bcast");
  const char* host_id = std::getenv("NCCL_HOSTID");
  shared_memory_ = fmt::format("{} {}", first_rank, host_id == nullptr ? "" : host_id);
  check_mpi(MPI_Comm_free(&host), "MPI_Comm_free");
}

MpiEnvironment::~MpiEnvironment() {
  if (!active_) return;
  // MPI_Finalize waits for the other ranks, which wait for this one if it leaves with an exception.
  if (std::uncaught_exceptions() > 0) abort(static_cast<int>(ExitCode::kInternal));
  const std::unique_ptr<Guard> ended = guard("MPI_Finalize");
  if (MPI_Finalize() != MPI_SUCCESS) std::fputs("ventris: MPI_Finalize failed\n", stderr);
}

std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) return "unknown MPI library";
  const std::string line(text.data(), static_cast<size_t>(length));
  return line.substr(0, line.find_first_of(",\n"));
}

std::unique_ptr<Guard> MpiEnvironment::guard(const char* call) const {
  const int rank = launcher_number({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}, 0);
  const auto wait_for_end_of_job = [this](std::chrono::milliseconds longest) {
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < longest) {
      std::this_thread::sleep_for(kAttemptInterval);
      if (limits_.stop_signal && limits_.stop_signal() != 0)
        std::_Exit(static_cast<int>(ExitCode::kUnavailable));
    }
  };
  const auto late = [this, call, rank, wait_for_end_of_job] {
    // Only the first rank that waits reports. That ends the job: the launcher, which may take a second for
    // it, sends SIGTERM to the others before their turn.
    wait_for_end_of_job(kTurn * std::min(rank, kTurns));
    if (local_rank_exited()) wait_for_end_of_job(kEndOfJob);
    const std::string known = describe_local_ranks();
    std::fputs(
        fmt::format(
            "[rank {} on {}] ventris: error: rank {} (pid {}) has waited {:g} s in {} for other ranks{}. "
            "A process may be stopped or hang, or a host cannot be reached. "
            "Saved checkpoints are intact; --comm-timeout of train sets how long ranks wait (0: no limit)\n",
            rank, host_, rank, ::getpid(), limits_.seconds, call,
            known.empty() ? "" : "; on this host " + known)
            .c_str(),
        stderr);
    std::_Exit(static_cast<int>(ExitCode::kUnavailable));
  };
  const bool starts = !active_;
  std::function<bool()> stop_requested;
  if (starts && limits_.stop_signal) stop_requested = [this] { return limits_.stop_signal() != 0; };
  const auto stopped = [this, rank] {
    if (rank == 0) std::fputs(describe_stop(limits_.stop_signal()).c_str(), stderr);
    std::_Exit(static_cast<int>(ExitCode::kStopped));
  };
  return std::make_unique<Guard>(limits_.seconds, Guard::Actions{late, stop_requested, stopped});
}

void MpiEnvironment::abort(int code) const {
  std::fflush(nullptr);
  // The launcher or the network may be gone.
  const Guard guard(kLongestAbort, {.late = [code] { std::_Exit(code); }});
  if (active_ && size_ > 1) MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

}  // namespace ventris
