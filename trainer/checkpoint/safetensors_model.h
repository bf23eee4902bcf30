// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trainer/checkpoint/weights.h"

namespace ventris {

/// Whether a file begins as a safetensors file does. False for one that cannot be read.
bool is_safetensors(const std::string& path);

/// Reads model.path, a safetensors file of ours, into all other members of the model, except the compute
/// copy. Throws DataError or Error(kBadData), naming the file and the parameter that is missing, unknown or
/// of another type or shape, or that has NaN, Inf or invalid values for its precision, or both digests of the
/// parameters if they differ.
void load_safetensors(Context& context, LoadedModel& model, DType dtype);

/// Writes a safetensors file: the logical parameters by name, with the scales of those in int8, then the
/// tokenizer as U8, and in the metadata digest, format, config, provenance, parameter_digest, probes, and the
/// precision if it is not f32. The parameters must be rounded with round_parameters() for it.
void save_safetensors(Context& context, const std::string& path, const LoadedModel& model,
                      const std::string& provenance, const std::string& probes, FilePrecision precision);

}  // namespace ventris
