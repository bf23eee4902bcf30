#include "comm/mpi_environment.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <vector>

#include "comm/affinity.h"
#include "comm/mpi/check_mpi.h"

namespace ventris {
namespace {

bool set(const char* variable) {
  return std::getenv(variable) != nullptr;
}

// A Slurm batch script has SLURM_PROCID too, so what counts is a step of several tasks.
int slurm_step_tasks() {
  const char* text = std::getenv("SLURM_STEP_NUM_TASKS");
  return text == nullptr || !set("SLURM_PROCID") ? 0 : std::atoi(text);
}

bool started_by_launcher() {
  return set("OMPI_COMM_WORLD_SIZE") || set("PMIX_RANK") || set("PMI_RANK") || set("PMI_SIZE") ||
         slurm_step_tasks() > 1;
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

MpiEnvironment::MpiEnvironment(int* argc, char*** argv)
    : core_share_(ventris::core_share({affinity_mask()}, 0)), host_(host_name()) {
  if (!started_by_launcher()) return;
  int level = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread");
  active_ = true;
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
  if (size_ > 1 && level < MPI_THREAD_SERIALIZED) {
    fail(ExitCode::kUnavailable,
         "this MPI library gives thread level {}; MPI_THREAD_SERIALIZED is needed. Use an MPI built with "
         "threads",
         level);
  }
  if (size_ == 1 && slurm_step_tasks() > 1 && !set("OMPI_COMM_WORLD_SIZE")) {
    fail(ExitCode::kUnavailable,
         "Slurm started {} tasks, but each is alone in its MPI job: MPI and srun do not know each other. Try "
         "srun --mpi=pmix, "
         "or mpirun inside the allocation",
         slurm_step_tasks());
  }
  MPI_Comm host = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host),
            "MPI_Comm_split_type");
  check_mpi(MPI_Comm_rank(host, &local_rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(host, &local_size_), "MPI_Comm_size");
  core_share_ = share_of_cores(host, local_rank_, local_size_);
  check_mpi(MPI_Comm_free(&host), "MPI_Comm_free");
}

MpiEnvironment::~MpiEnvironment() {
  if (!active_) return;
  // MPI_Finalize waits for the other ranks, which wait for this one where it leaves with an exception.
  if (std::uncaught_exceptions() > 0) MPI_Abort(MPI_COMM_WORLD, static_cast<int>(ExitCode::kInternal));
  if (MPI_Finalize() != MPI_SUCCESS) std::fputs("ventris: MPI_Finalize failed\n", stderr);
}

std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) return "unknown MPI library";
  const std::string line(text.data(), static_cast<size_t>(length));
  return line.substr(0, line.find_first_of(",\n"));
}

void MpiEnvironment::abort(int code) const {
  std::fflush(nullptr);
  if (active_ && size_ > 1) MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);
}

}  // namespace ventris
