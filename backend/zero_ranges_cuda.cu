#include "backend/zero_ranges_cuda.h"

#include <algorithm>

#include "backend/cuda/elements.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/op_checks.h"

namespace ventris {
namespace {

using namespace cuda;

constexpr int kThreads = 256;

/// A kernel's argument.
struct FlatRanges {
  static constexpr size_t kMost = 128;
  FlatRange ranges[kMost];
};

/// Grid: (parts, ranges). A block sets every gridDim.x-th kThreads packs of its range to zero.
__global__ void zero_packs(float* flat, const __grid_constant__ FlatRanges list) {
  const FlatRange& range = list.ranges[blockIdx.y];
  float* const first = flat + range.begin;
  const float zeros[kPack] = {};
  for (int64_t begin = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kPack; begin < range.count;
       begin += int64_t{gridDim.x} * kThreads * kPack) {
    store_pack<true>(first, begin, range.count, zeros);
  }
}

}  // namespace

void zero_ranges_cuda(Context& context, Tensor flat, std::span<const FlatRange> ranges) {
  constexpr unsigned kMostParts = 16;  // of a range
  while (!ranges.empty()) {
    const size_t count = std::min(FlatRanges::kMost, ranges.size());
    FlatRanges list = {};
    int64_t widest = 0;
    for (size_t i = 0; i < count; ++i) {
      VENTRIS_CHECK(ranges[i].begin % kPack == 0, "a range of elements begins at {}", ranges[i].begin);
      list.ranges[i] = ranges[i];
      widest = std::max(widest, ranges[i].count);
    }
    launch({.name = "zero_packs",
            .grid = dim3(std::min(kMostParts, blocks_for(widest, kThreads * kPack)),
                         static_cast<unsigned>(count)),
            .block = kThreads},
           stream_of(context), zero_packs, flat.as<float>(), list);
    ranges = ranges.subspan(count);
  }
}

}  // namespace ventris
