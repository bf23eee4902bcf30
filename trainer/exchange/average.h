// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace ventris {

/// Averages the parameters (in f64) of checkpoints or weights files of one model and writes a weights file.
void average_checkpoints(const std::vector<std::string>& paths, const std::string& output,
                         const std::string& provenance);

}  // namespace ventris
