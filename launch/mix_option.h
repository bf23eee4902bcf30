// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launch/train_option_table.h"

namespace ventris {

/// Reads the file of --mix, if one is given, into options.train: a plan of stages, a configuration of
/// OpusTrainer, or a config.json of a run with a plan. Returns remarks for the user. Throws DataError, and
/// Error(kBadConfiguration) for a config.json without a plan.
std::vector<std::string> take_mix(TrainCommandOptions& options);

}  // namespace ventris
