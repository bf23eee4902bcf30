// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

// Private to data/: how an HDF5 file of ours is refused that is not as it was written.

namespace ventris::data {

/// Throws DataError kBadData, naming the file and `difference`, from which it is seen that the file changed.
[[noreturn]] void fail_changed(const std::string& path, const std::string& difference);

/// Throws the same unless the file of `bytes` bytes has as many after its user block as are `recorded` there.
void require_length(const std::string& path, int64_t bytes, uint64_t recorded);

}  // namespace ventris::data
