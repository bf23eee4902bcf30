#include "launch/version.h"

#include <fmt/format.h>

#include "backend/device.h"
#include "backend/gemm.h"
#include "comm/communicator.h"
#include "comm/mpi_environment.h"
#include "ventris_commit.h"

namespace ventris {

std::string program_version() {
  return VENTRIS_VERSION;
}

std::string program_name_and_version() {
  return fmt::format("ventris {} (commit {})", program_version(), VENTRIS_COMMIT);
}

std::string version_text() {
  return fmt::format(
      "{}\n"
      "CPU:  yes, f32 and bf16, {}\n"
      "MPI:  {}\n"
      "CUDA: {}\n"
      "NCCL: {}\n",
      program_name_and_version(), gemm_library(), mpi_library(), cuda_build(), nccl_library());
}

}  // namespace ventris
