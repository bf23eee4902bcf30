// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/transformer_config.h"

namespace ventris {

/// Export formats; docs/formats.md describes each.
enum class ExportFormat { kHdf5, kSafetensors, kCtranslate2, kHuggingface, kMarian };

/// The format as the command line has it: "hdf5", "safetensors", "ctranslate2", "huggingface", "marian".
const char* name_of(ExportFormat format);

/// A setting that a format cannot express.
struct ExportLimit {
  std::string what;    // "pre-norm layers"
  std::string remedy;  // how to train instead: "no --pre-norm"
};

/// All settings that the format cannot express, for models of this shape with this begin mark.
std::vector<ExportLimit> export_limits(ExportFormat format, const TransformerConfig& config,
                                       int32_t begin_token);

/// The formats that can express such models, and the settings that the others need: "hdf5, safetensors,
/// ctranslate2; huggingface would need no --pre-norm".
std::string describe_exports(const TransformerConfig& config, int32_t begin_token);

}  // namespace ventris
