#pragma once

#include <string>

#include "trainer/train_options.h"

namespace ventris {

/// The options of a run as one JSON object with sorted keys (exact round trip), as config.json has them. With
/// `environment` (trainer/run_environment.h), if there is one, under that key.
std::string to_json(const TrainOptions& options, const std::string& environment = "");
/// Of what to_json() gives. Options that are missing have their defaults: a file of an older version. Throws
/// Error(kBadData) naming `origin` and the key that is unknown or of another type, and data::NewerFormat
/// where the text is of a later version.
TrainOptions train_options_from_json(const std::string& json, const std::string& origin);
/// Of the newest start in a run folder, by its config.json. Throws DataError where that cannot be read, too.
TrainOptions recorded_options(const std::string& folder);

}  // namespace ventris
