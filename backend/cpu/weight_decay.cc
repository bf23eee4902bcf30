// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/weight_decay.h"

namespace ventris {
namespace {

constexpr int64_t kChunk = 16384;  // elements of one piece of work

template <typename M>
void decay(Context& context, const WeightDecayArgs& args) {
  const auto factor = static_cast<M>(1.0 - static_cast<double>(args.scalars->learning_rate) * args.decay);
  for (const FlatRange& range : args.ranges) {
    M* const first = args.values.as<M>() + range.begin;
    context.pool().for_ranges(range.count, kChunk, [=](int64_t begin, int64_t end, int) {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) first[i] *= factor;
    });
  }
}

}  // namespace

void weight_decay_cpu(Context& context, const WeightDecayArgs& args) {
  if (args.scalars->skip != 0) return;
  if (args.values.dtype == DType::kF64) return decay<double>(context, args);
  decay<float>(context, args);
}

}  // namespace ventris
