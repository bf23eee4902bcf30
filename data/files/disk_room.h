// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ventris::data {

/// The space for a file at the path, as sentences, each with a leading space: free bytes of the disk, and
/// limits of this process.
std::string room_at(const std::string& path);

}  // namespace ventris::data
