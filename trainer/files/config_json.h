#pragma once

#include <string>

#include "model/transformer_config.h"
#include "trainer/train_options.h"

namespace ventris {

/// The configuration as one JSON object with sorted keys (exact round trip), as stored in files and the run
/// folder.
std::string to_json(const TransformerConfig& config);
/// With `environment` (trainer/run_environment.h), if there is one, under that key.
std::string to_json(const TrainOptions& options, const std::string& environment = "");
/// Throws Error(kBadData) naming `origin` and the key that is missing, unknown or of another type.
TransformerConfig transformer_config_from_json(const std::string& json, const std::string& origin);
/// Of what to_json() gives. Options that are missing have their defaults: a file of an older version. Throws
/// data::NewerFormat where the text is of a later version.
TrainOptions train_options_from_json(const std::string& json, const std::string& origin);
/// Of the newest start in a run folder, by its config.json. Throws DataError where that cannot be read, too.
TrainOptions recorded_options(const std::string& folder);

/// The keys whose values differ, "d_model 512, not 256; swish true, not false"; empty where all are equal.
std::string differences(const TransformerConfig& theirs, const TransformerConfig& ours);

/// What must be equal between a checkpoint and the run that resumes from it, as "key: value" lines in a fixed
/// order: model shape, batch, seed, Adam's constants, precision. Steps, intervals, learning rate and machine
/// options may differ.
std::string resume_signature(const TrainOptions& options);

}  // namespace ventris
