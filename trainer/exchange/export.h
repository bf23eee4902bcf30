// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "trainer/checkpoint/weights.h"
#include "trainer/exchange/export_limits.h"

namespace ventris {

/// Writes a model, with a set of probes (trainer/exchange/probe.h), to `output`: a file (kHdf5, kSafetensors)
/// or a folder (data/io/atomic_folder.h) that is created if missing. Equal models give equal bytes on one
/// machine. The context is on the CPU, the model in f32; its parameters are rounded to the precision. Returns
/// the files written. Throws Error(kBadConfiguration) for a model that the format cannot express, naming the
/// setting and a suitable format, and Error(kUsage) for a precision that the format does not have, naming
/// suitable ones.
std::vector<std::string> export_model(Context& context, LoadedModel& model, ExportFormat format,
                                      const std::string& output, const std::string& provenance,
                                      FilePrecision precision = FilePrecision::kF32);

}  // namespace ventris
