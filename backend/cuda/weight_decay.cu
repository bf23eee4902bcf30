// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/weight_decay.h"

#include <algorithm>

#include "backend/cuda/flat_ranges.cuh"

namespace ventris {
namespace {

using namespace cuda;

/// Grid of for_lists().
template <bool kVectors>
__global__ void decay_values(float* values, const __grid_constant__ FlatRanges list, double decay,
                             const AdamScalars* scalars) {
  if (scalars->skip != 0) return;
  const auto factor = static_cast<float>(1.0 - static_cast<double>(scalars->learning_rate) * decay);
  const FlatRange& range = list.ranges[blockIdx.y];
  float* const first = values + range.begin;
  for (int64_t begin = (int64_t{blockIdx.x} * kRangeThreads + threadIdx.x) * kPack; begin < range.count;
       begin += int64_t{gridDim.x} * kRangeThreads * kPack) {
    float v[kPack];
    load_pack<kVectors>(first, begin, range.count, v);
    for (int i = 0; i < kPack; ++i) v[i] *= factor;
    store_pack<kVectors>(first, begin, range.count, v);
  }
}

}  // namespace

void weight_decay_cuda(Context& context, const WeightDecayArgs& args) {
  const bool aligned = vectors_fit(args.values) &&
                       std::all_of(args.ranges.begin(), args.ranges.end(),
                                   [](const FlatRange& range) { return range.begin % kPack == 0; });
  dispatch_flag(aligned, [&](auto vectors) {
    for_lists(args.ranges, [&](dim3 grid, const FlatRanges& list) {
      launch({.name = "decay_values", .grid = grid, .block = kRangeThreads}, stream_of(context),
             decay_values<decltype(vectors)::value>, args.values.as<float>(), list, args.decay, args.scalars);
    });
  });
}

}  // namespace ventris
