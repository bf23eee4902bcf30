// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace ventris::fuzz {

/// While it lives, no more memory than `bytes` may be added to what was in use; the program is ended
/// otherwise, with a message. Counts every allocation of the process, those of C libraries too. One at a
/// time.
class MemoryLimit {
 public:
  explicit MemoryLimit(size_t bytes);
  ~MemoryLimit();
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;
};

}  // namespace ventris::fuzz
