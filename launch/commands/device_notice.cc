// SPDX-License-Identifier: Apache-2.0
#include "launch/commands/device_notice.h"

#include <fmt/core.h>

#include "backend/device/device.h"
#include "launch/job.h"

namespace ventris {

void say_if_built_without_cuda(const Job& job, const std::string& device) {
  if (device == "auto" && cuda_build() == "no")
    say(job, fmt::format("Computing on the CPU: {}", cuda_unavailable_reason()));
}

}  // namespace ventris
