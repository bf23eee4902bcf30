// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

// Private to data/files/hdf5_*.cc.

namespace ventris::data {

/// The listing of a file as JSON: {"groups": [NAME...], "datasets": [{"name", "type": an ElementType, or null
/// for another type, "offset", "dimensions": null without elements}...], "attributes": [[OBJECT, NAME,
/// string, integer, fraction or null]...]}, or {"refused": REASON}. Runs in the process in which the library
/// may crash; under Hdf5Lock.
std::string list_hdf5(const std::string& path, int fd, int64_t bytes);

}  // namespace ventris::data
