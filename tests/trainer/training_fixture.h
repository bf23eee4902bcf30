// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "backend/device/context.h"
#include "comm/communicator.h"
#include "tests/support/tiny_run.h"
#include "trainer/train.h"

namespace ventris::testing {

/// Trains in this process, on one rank of one thread.
TrainResult train_alone(const TrainOptions& options);

/// The objects of metrics.jsonl in the run folder that hold the key, without their time; all of them where
/// none is given.
std::vector<nlohmann::json> metrics_of(const TrainOptions& options, const std::string& key = "");

}  // namespace ventris::testing
