// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace ventris {

/// The options of a config.json of a run folder, as a ConfigReader of a command with them. Throws
/// Error(kBadConfiguration) naming `path`.
std::vector<std::pair<std::string, std::string>> train_options_of(const std::string& json,
                                                                  const std::string& path);

}  // namespace ventris
