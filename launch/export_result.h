#pragma once

#include <string>
#include <vector>

#include "trainer/weights.h"

namespace ventris {

/// Writes to the standard output what was made of a model: a line, or one JSON object.
void write_export_result(const std::string& output, const std::vector<std::string>& files,
                         const LoadedModel& model, bool json);

}  // namespace ventris
