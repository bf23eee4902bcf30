// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>

// Private to data/.

namespace ventris::data {

/// Reads exactly `bytes` from a pipe or socket. Before each read it calls wait(), which returns when there
/// may be something to read, or false to give up. False also at the end of the stream and for a failure.
template <typename Wait>
bool read_stream(int fd, void* data, size_t bytes, Wait&& wait) {
  char* at = static_cast<char*>(data);
  while (bytes > 0) {
    if (!wait()) return false;
    const ssize_t done = ::read(fd, at, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    at += done;
    bytes -= static_cast<size_t>(done);
  }
  return true;
}

}  // namespace ventris::data
