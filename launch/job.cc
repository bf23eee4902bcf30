// SPDX-License-Identifier: Apache-2.0
#include "launch/job.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "backend/device/device.h"
#include "backend/device/error.h"
#include "backend/device/instruction_set.h"
#include "comm/affinity.h"
#include "comm/communicator.h"
#include "comm/mpi_environment.h"
#include "comm/nccl_library.h"
#include "comm/rank_device.h"
#include "launch/output.h"
#include "trainer/inference/model_set.h"
#include "trainer/program_version.h"
#include "trainer/text.h"

namespace ventris {

bool Job::is_rank_zero() const {
  return environment.rank() == 0;
}

std::string Job::provenance() const {
  return program_name_and_version() + ": " + command_line;
}

namespace {

void choose_kernels(const Job& job) {
  const std::vector<std::string> of_ranks = job.communicator.all_gather(automatic_instruction_set());
  const std::string min = min_instruction_set(of_ranks);
  choose_instruction_set(min);
  if (std::count(of_ranks.begin(), of_ranks.end(), min) != std::ssize(of_ranks))
    say(job, fmt::format("Computing with the instruction set {}, the largest that every rank has", min));
}

}  // namespace

std::unique_ptr<Context> make_context(const Job& job, const std::string& device, int threads) {
  check_equal_on_all_ranks(job.communicator, "--device", device);
  choose_kernels(job);
  ContextOptions options = {.threads = threads_per_rank(job.environment, threads)};
  if (device != "cpu") {
    const RankDevice found = find_rank_device(job.communicator, job.environment);
    const bool built = cuda_build() != "no";
    if (found.reason.empty()) {
      options.device = Device::kCuda;
      options.device_index = found.index;
      say(job,
          fmt::format("Computing on {}{}", cuda_device_name(found.index),
                      job.communicator.size() > 1
                          ? fmt::format(" (rank 0; each rank has its own device), NCCL {}", loaded_nccl())
                          : ""));
    } else if (device == "cuda") {
      fail(ExitCode::kUnavailable, "--device cuda: {}; use --device cpu, or auto to use what is available",
           found.reason);
    } else if (!found.evidence.empty()) {
      fail(ExitCode::kUnavailable,
           "--device auto: the job has GPUs ({}) and cannot use them: {}. "
           "Remove the cause, or give --device cpu to compute on the CPU",
           found.evidence, without_full_stop(found.reason));
    } else if (built) {
      say(job, fmt::format("Computing on the CPU: no CUDA device can be used ({})", found.reason));
    }
  }
  return std::make_unique<Context>(options);
}

void say(const Job& job, const std::string& message) {
  if (job.is_rank_zero()) tell(message);
}

void say_if_built_without_cuda(const Job& job, const std::string& device) {
  if (device == "auto" && cuda_build() == "no")
    say(job, fmt::format("Computing on the CPU: {}", cuda_unavailable_reason()));
}

void check_same_models_on_all_ranks(Communicator& communicator, const ModelSet& models) {
  if (communicator.size() == 1) return;
  check_equal_on_all_ranks(communicator, "the digests of the models' files",
                           fmt::format("{}", fmt::join(models.file_digests(), " ")));
}

}  // namespace ventris
