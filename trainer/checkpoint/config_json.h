// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "model/transformer_config.h"

namespace ventris {

/// The configuration as one JSON object with sorted keys (exact round trip), as stored in files and the run
/// folder.
std::string to_json(const TransformerConfig& config);
/// Throws Error(kBadData) naming `origin` and the key that is missing, unknown or of another type.
TransformerConfig transformer_config_from_json(const std::string& json, const std::string& origin);
/// The keys whose values differ, "d_model 512, not 256; activation swish, not relu"; empty if all are equal.
std::string differences(const TransformerConfig& theirs, const TransformerConfig& ours);

/// The settings that to_json() writes, as "key: value" lines in a fixed order.
std::string lines_of(const TransformerConfig& config);
/// Whether it is the key of a setting in the JSON object.
bool is_key_of_config(const std::string& key);

}  // namespace ventris
