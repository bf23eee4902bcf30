// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "trainer/checkpoint/weights.h"

namespace ventris {

/// The provenance of a file made of a model: version, commit, and `action` on the name of the model's file.
/// Without paths: two exports of one model have the same bytes at any location.
std::string export_provenance(const std::string& action, const LoadedModel& model);

/// Writes the result of an export to the standard output: a line, or one JSON object.
void write_export_result(const std::string& output, const std::vector<std::string>& files,
                         const LoadedModel& model, bool json);

}  // namespace ventris
