// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <span>

#include "backend/cuda/elements.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/device/flat_range.h"

/// Shared by kernels over many ranges of a flat buffer.
namespace ventris::cuda {

inline constexpr int kRangeThreads = 256;

/// A kernel's argument.
struct FlatRanges {
  static constexpr size_t kMost = 128;
  FlatRange ranges[kMost];
};

/// Calls work(grid, list) for at most 128 ranges at a time. Grid: (parts, ranges); a block of kRangeThreads
/// does every gridDim.x-th kRangeThreads packs of its range.
template <typename Work>
void for_lists(std::span<const FlatRange> ranges, Work&& work) {
  constexpr unsigned kMaxParts = 16;  // of a range
  while (!ranges.empty()) {
    const size_t count = std::min(FlatRanges::kMost, ranges.size());
    FlatRanges list = {};
    int64_t widest = 0;
    for (size_t i = 0; i < count; ++i) {
      list.ranges[i] = ranges[i];
      widest = std::max(widest, ranges[i].count);
    }
    work(dim3(std::min(kMaxParts, blocks_for(widest, kRangeThreads * kPack)), static_cast<unsigned>(count)),
         list);
    ranges = ranges.subspan(count);
  }
}

}  // namespace ventris::cuda
