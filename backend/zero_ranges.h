#pragma once

#include <cstdint>
#include <span>

#include "backend/context.h"

namespace ventris {

/// Elements [begin, begin + count) of a flat buffer.
struct FlatRange {
  int64_t begin;
  int64_t count;

  bool operator==(const FlatRange&) const = default;
};

/// Sets the elements of `flat`, [1, n] of a master dtype, in the ranges to zero. On CUDA one launch does 128
/// ranges, which begin at multiples of 8 elements.
void zero_ranges(Context& context, Tensor flat, std::span<const FlatRange> ranges);

}  // namespace ventris
