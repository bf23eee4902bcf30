// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/uio.h>

#include <string>

// What the calls did, for tests/faults/power_loss.py. All by the holder of `turn`, after the call.

namespace faults {

/// Appends a line to the file `calls` of VENTRIS_FAULT_RECORD: the thread, the kind of call, and its
/// arguments, with tabs between.
void record(const std::string& kind, const std::string& arguments);

void record_open(int fd, const std::string& path, int flags);
/// Bytes that were written, to the file `data` besides. An offset of -1: those before the place where the
/// file stands now.
void record_write(int fd, const void* data, size_t bytes, long offset);
void record_write(int fd, const struct iovec* pieces, int count, size_t bytes);

}  // namespace faults
