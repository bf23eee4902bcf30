// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace ventris::data {

/// If list_hdf5_in_child() started this program, lists the file and does not return. For the beginning of
/// main, before MPI, CUDA, any thread and any file.
void list_hdf5_if_asked(int argc, const char* const* argv);

/// The listing of an open file of `bytes` bytes (list_hdf5), made by this program in a child process, since
/// the HDF5 library may crash on hostile input. The child starts with posix_spawn, as a process with MPI or
/// CUDA must not fork; it has no file of this process except `fd` and a pipe, none of its environment, can
/// open and write no file, has limits on memory and time, and ends with this process. The path is for
/// messages. From any thread. Throws DataError: kBadData for a file on which the library crashes or computes
/// too long, kUnavailable where limits of this process may be the reason, kIo if no child can be started or
/// another process ended it.
std::string list_hdf5_in_child(const std::string& path, int fd, int64_t bytes);

/// Bytes of address space that this process uses, or 0 if unknown. Allocates no memory.
size_t address_space_bytes();
/// Whether the limits of this process (on address space and data) allow `bytes` more. Allocates no memory,
/// and requests none that must be physically present.
bool has_room(size_t bytes);

}  // namespace ventris::data
