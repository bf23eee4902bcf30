// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ventris {

/// Bytes of memory that processes here may use: that of the machine, or the limit of the control group.
int64_t memory_of_this_host();

}  // namespace ventris
