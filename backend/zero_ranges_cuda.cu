// SPDX-License-Identifier: Apache-2.0
#include "backend/zero_ranges_cuda.h"

#include "backend/cuda/flat_ranges.cuh"
#include "backend/op_checks.h"

namespace ventris {
namespace {

using namespace cuda;

/// Grid of for_lists().
__global__ void zero_packs(float* flat, const __grid_constant__ FlatRanges list) {
  const FlatRange& range = list.ranges[blockIdx.y];
  float* const first = flat + range.begin;
  const float zeros[kPack] = {};
  for (int64_t begin = (int64_t{blockIdx.x} * kRangeThreads + threadIdx.x) * kPack; begin < range.count;
       begin += int64_t{gridDim.x} * kRangeThreads * kPack) {
    store_pack<true>(first, begin, range.count, zeros);
  }
}

}  // namespace

void zero_ranges_cuda(Context& context, Tensor flat, std::span<const FlatRange> ranges) {
  for (const FlatRange& range : ranges)
    VENTRIS_CHECK(range.begin % kPack == 0, "a range of elements begins at {}", range.begin);
  for_lists(ranges, [&](dim3 grid, const FlatRanges& list) {
    launch({.name = "zero_packs", .grid = grid, .block = kRangeThreads}, stream_of(context), zero_packs,
           flat.as<float>(), list);
  });
}

}  // namespace ventris
