// SPDX-License-Identifier: Apache-2.0
#include "launch/version.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "backend/cpu/gemm_onednn.h"
#include "backend/device/device.h"
#include "backend/device/instruction_set.h"
#include "comm/communicator.h"
#include "comm/mpi_environment.h"
#include "trainer/json_text.h"
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

std::string version_json() {
  const auto unless_no = [](std::string text) {
    const std::string yes = "yes, ";
    if (text.starts_with(yes)) text = text.substr(yes.size());
    return text == "no" ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
  };
  return json_text(nlohmann::ordered_json{{"version", program_version()},
                                          {"commit", program_commit()},
                                          {"cpu", gemm_library()},
                                          {"isa", instruction_set()},
                                          {"built_isa", built_instruction_sets()},
                                          {"mpi", unless_no(mpi_library())},
                                          {"cuda", unless_no(cuda_build())},
                                          {"nccl", unless_no(nccl_library())}}) +
         "\n";
}

}  // namespace ventris
