// SPDX-License-Identifier: Apache-2.0
#include "backend/clip_values.h"
#include "backend/cuda/elements.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/kernels_cuda.h"

namespace ventris {
namespace {

using namespace cuda;

constexpr int kClipValuesThreads = 256;

/// One thread: kPack elements. Grid: n / (kPack * kClipValuesThreads).
template <bool kVectors>
__global__ void clip_elements(float* x, int64_t count, float limit) {
  const int64_t begin = (int64_t{blockIdx.x} * kClipValuesThreads + threadIdx.x) * kPack;
  if (begin >= count) return;
  float v[kPack];
  load_pack<kVectors>(x, begin, count, v);
  for (int i = 0; i < kPack; ++i) v[i] = v[i] > limit ? limit : v[i] < -limit ? -limit : v[i];
  store_pack<kVectors>(x, begin, count, v);
}

}  // namespace

void clip_values_cuda(Context& context, const ClipValuesArgs& args) {
  const int64_t count = args.x.cols;
  dispatch_flag(vectors_fit(args.x), [&](auto vectors) {
    launch({.name = "clip_elements",
            .grid = blocks_for(count, int64_t{kPack} * kClipValuesThreads),
            .block = kClipValuesThreads},
           stream_of(context), clip_elements<decltype(vectors)::value>, args.x.as<float>(), count,
           static_cast<float>(args.limit));
  });
}

}  // namespace ventris
