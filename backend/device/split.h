// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace ventris {

/// [0, total) in `count` pieces of nearly equal length, multiples of `unit` except the end of the last.
struct Split {
  int64_t total;
  int64_t unit;
  int64_t count;

  int64_t begin(int64_t i) const { return std::min(total, (total + unit - 1) / unit * i / count * unit); }
  int64_t length(int64_t i) const { return begin(i + 1) - begin(i); }
  /// The length without the cut at the end.
  int64_t whole_length(int64_t i) const {
    const int64_t units = (total + unit - 1) / unit;
    return (units * (i + 1) / count - units * i / count) * unit;
  }
};

}  // namespace ventris
