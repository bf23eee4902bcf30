// SPDX-License-Identifier: Apache-2.0
#include "backend/clip_values.h"
#include "backend/kernels_cpu.h"

namespace ventris {
namespace {

constexpr int64_t kChunk = 16384;  // elements of one piece of work

template <typename M>
void clip(Context& context, const ClipValuesArgs& args) {
  const M limit = static_cast<M>(args.limit);
  M* const x = args.x.as<M>();
  context.pool().for_ranges(args.x.cols, kChunk, [=](int64_t begin, int64_t end, int) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) x[i] = x[i] > limit ? limit : x[i] < -limit ? -limit : x[i];
  });
}

}  // namespace

void clip_values_cpu(Context& context, const ClipValuesArgs& args) {
  if (args.x.dtype == DType::kF64) return clip<double>(context, args);
  clip<float>(context, args);
}

}  // namespace ventris
