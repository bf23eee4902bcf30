// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "model/transformer_config.h"
#include "trainer/options/option_table.h"

namespace ventris {

/// The object of config.json with these rows.
inline constexpr const char* kModelSection = "model";

/// The options of a model that do not depend on a corpus.
void add_model_rows(TransformerConfig& model, OptionTable& table);
/// The sizes of vocabularies, which are fields of files but no options.
void add_vocabulary_rows(TransformerConfig& model, OptionTable& table);

/// The configuration as one JSON object with sorted keys (exact round trip), as stored in files and the run
/// folder.
std::string to_json(const TransformerConfig& config);
/// Throws Error(kBadData) naming `origin` and the key that is missing, unknown or of another type.
TransformerConfig transformer_config_from_json(const std::string& json, const std::string& origin);
/// Copies what only training reads: the rates of dropout and label smoothing.
void copy_training_settings(const TransformerConfig& from, TransformerConfig& to);
/// The keys whose values differ, "d_model 512, not 256; activation swish, not relu"; empty if all are equal.
std::string differences(const TransformerConfig& theirs, const TransformerConfig& ours);
/// Whether it is the key of a setting in the JSON object.
bool is_key_of_config(const std::string& key);

}  // namespace ventris
