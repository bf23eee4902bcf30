// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trainer/train_options.h"

namespace ventris {

/// The options of a run as one JSON object with sorted keys (exact round trip).
std::string to_json(const TrainOptions& options);
/// The same as to_json() in config.json: with `environment` (trainer/run_environment.h), if there is one,
/// under that key.
std::string config_json(const TrainOptions& options, const std::string& environment);
/// Reads the result of to_json(). Missing options have their defaults. Throws
/// Error(kBadData) naming `origin` and the key that is unknown or of another type, and data::NewerFormat if
/// the text is of a later version.
TrainOptions train_options_from_json(const std::string& json, const std::string& origin);
/// The options of the newest start in a run folder, by its config.json. Also throws DataError if that cannot
/// be read.
TrainOptions recorded_options(const std::string& folder);

}  // namespace ventris
