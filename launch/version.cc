#include "launch/version.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backend/device.h"
#include "backend/gemm_cache.h"
#include "backend/instruction_set.h"
#include "comm/communicator.h"
#include "comm/mpi_environment.h"
#include "trainer/program_version.h"

namespace ventris {

std::string version_text() {
  return fmt::format(
      "{}\n"
      "CPU:  yes, f32 and bf16, {}\n"
      "ISA:  {}, of {}\n"
      "MPI:  {}\n"
      "CUDA: {}\n"
      "NCCL: {}\n",
      program_name_and_version(), gemm_library(), instruction_set(),
      fmt::join(built_instruction_sets(), ", "), mpi_library(), cuda_build(), nccl_library());
}

}  // namespace ventris
