// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace ventris {

/// What a run does at a spike of its loss (trainer/divergence.h).
struct SpikeOptions {
  std::string on = "ignore";   // ignore, stop, or rollback: go back to a checkpoint and lower the rate
  double factor = 1.5;         // of the mean loss per token before, above which a step counts
  double rollback_rate = 0.5;  // factor of the learning rate of a rollback
  int64_t max_rollbacks = 3;   // of a run
};

inline constexpr const char* kOnSpike[] = {"ignore", "stop", "rollback"};

}  // namespace ventris
