// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ventris {

/// The text of a file of --config, without a byte order mark. Waits for the writer of a pipe. Throws Error:
/// kMissingInput if it cannot be read, kBadConfiguration if it is longer than 64 KiB or has NUL bytes,
/// kStopped at a stop signal.
std::string read_config(const std::string& path);

}  // namespace ventris
