// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "backend/device/error.h"

namespace ventris {

/// Elements [begin, begin + count) of a flat buffer.
struct FlatRange {
  int64_t begin;
  int64_t count;

  bool operator==(const FlatRange&) const = default;
};

/// Throws Error(kInternal) unless all ranges lie in a buffer of `size` elements.
inline void check_ranges(std::span<const FlatRange> ranges, int64_t size) {
  for (const FlatRange& range : ranges) {
    VENTRIS_CHECK(range.begin >= 0 && range.count >= 0 && range.begin + range.count <= size,
                  "elements {} to {} of {}", range.begin, range.begin + range.count, size);
  }
}

}  // namespace ventris
