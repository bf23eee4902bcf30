// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

// Private to data/: how an HDF5 file of ours is refused that is not as it was written.

namespace ventris::data {

/// Throws DataError kBadData, naming the file and `difference`, from which it is seen that the file changed.
/// If another program has it open for writing, that is said.
[[noreturn]] void fail_changed(int fd, const std::string& path, const std::string& difference);

/// Throws the same unless the file of `bytes` bytes has as many after its user block as are `recorded` there.
void require_length(int fd, const std::string& path, int64_t bytes, uint64_t recorded);

/// Whether HDF5's mark is set that a program has the file open for writing; it stays if that program is
/// killed. The mark is in the superblock, after a user block of ours, in the versions that our files have.
/// False if the bytes cannot be read.
bool is_open_for_writing(int fd);

}  // namespace ventris::data
