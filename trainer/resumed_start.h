// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trainer/metrics.h"

namespace ventris {

class Communicator;

/// Describes a start that resumes a run from `checkpoint`, for the log: what it runs on, and how the start
/// before ended, as its status.json says, which this start has not replaced yet. `last_logged`: the largest
/// step of the lines of the log that it dropped (MetricsLog::last_dropped()).
ResumedStart describe_resumed_start(const Communicator& communicator, const std::string& model_dir,
                                    const std::string& checkpoint, const std::string& device, int64_t step,
                                    int64_t last_logged);

}  // namespace ventris
