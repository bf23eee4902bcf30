#pragma once

#include <string>

#include "trainer/files/weights.h"

namespace ventris {

/// Whether a file begins as a safetensors file does. False for one that cannot be read.
bool is_safetensors(const std::string& path);

/// Reads model.path, a safetensors file of ours, into the rest of the model, all but the compute copy. Throws
/// DataError or Error(kBadData), naming the file and the parameter that is missing, unknown or of another
/// type or shape, or that holds NaN or Inf or what its precision does not have, or both digests of the
/// parameters where they differ.
void load_safetensors(Context& context, LoadedModel& model, DType dtype);

/// Writes a safetensors file: the logical parameters by name, with the scales of those in int8, then the
/// tokenizer as U8, and in the metadata digest, format, config, provenance, parameter_digest, probes, and the
/// precision where it is not f32. The parameters are those that round_parameters() gives for it.
void save_safetensors(Context& context, const std::string& path, const LoadedModel& model,
                      const std::string& provenance, const std::string& probes, FilePrecision precision);

}  // namespace ventris
