#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/transformer_config.h"

namespace ventris {

/// What other programs read; docs/formats.md describes each.
enum class ExportFormat { kHdf5, kSafetensors, kCtranslate2, kHuggingface, kMarian };

/// The format as the command line has it: "hdf5", "safetensors", "ctranslate2", "huggingface", "marian".
const char* name_of(ExportFormat format);

/// Something that a format cannot express.
struct ExportLimit {
  std::string what;    // "pre-norm layers"
  std::string remedy;  // how to train instead: "no --pre-norm"
};

/// All that the format cannot express of models of this shape whose begin mark is that token.
std::vector<ExportLimit> export_limits(ExportFormat format, const TransformerConfig& config,
                                       int32_t begin_token);

/// Which formats can express such models, and what the others would need: "hdf5, safetensors, ctranslate2;
/// huggingface would need no --pre-norm".
std::string describe_exports(const TransformerConfig& config, int32_t begin_token);

}  // namespace ventris
