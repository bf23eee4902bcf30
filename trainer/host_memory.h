// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ventris {

/// Bytes of memory as the system counts them; 0: not known.
struct HostMemory {
  int64_t resident = 0;  // of this process
  int64_t used = 0;      // of this host: what no program could get
  int64_t total = 0;     // of this host
};

/// Takes tens of microseconds.
HostMemory host_memory();

/// Bytes of memory that processes here may use: that of the machine, or the limit of the control group.
int64_t memory_of_this_host();

}  // namespace ventris
