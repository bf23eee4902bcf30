#include "launch/job.h"

#include <cstdio>

#include "backend/error.h"
#include "comm/mpi_environment.h"
#include "launch/output.h"
#include "launch/version.h"

namespace ventris {

bool Job::speaks() const {
  return environment.rank() == 0;
}

std::string Job::provenance() const {
  return program_name_and_version() + ": " + command_line;
}

std::unique_ptr<Context> make_context(const Job& job, const std::string& device, int threads) {
  if (device == "cuda") {
    fail(ExitCode::kUnavailable,
         "--device cuda: this program was built without CUDA; use --device cpu, or auto to take what "
         "there is");
  }
  return std::make_unique<Context>(ContextOptions{.threads = threads_per_rank(job.environment, threads)});
}

void say(const Job& job, const std::string& message) {
  if (job.speaks()) tell(message);
}

}  // namespace ventris
