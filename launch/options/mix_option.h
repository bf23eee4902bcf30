// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch/options/train_option_table.h"

namespace ventris {

/// Reads the file of --mix, if one is given, into options.train: a plan of stages, or a config.json of a run
/// with one. Throws DataError, and Error(kBadConfiguration) for a config.json without a plan.
void take_mix(TrainCommandOptions& options);

}  // namespace ventris
