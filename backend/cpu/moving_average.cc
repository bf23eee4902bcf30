// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <utility>

#include "backend/ops/moving_average.h"

namespace ventris {
namespace {

constexpr int64_t kChunk = 16384;  // elements of one piece of work

template <typename M>
void average(Context& context, const MovingAverageArgs& args) {
  const M share = static_cast<M>(moving_average_share(args.decay, args.outcome->updates));
  const M* value = args.value.as<M>();
  M* average = args.average.as<M>();
  context.pool().for_ranges(args.value.cols, kChunk, [=](int64_t begin, int64_t end, int) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) average[i] = std::fma(share, value[i] - average[i], average[i]);
  });
}

template <typename M>
void exchange_elements(Context& context, const ExchangeArgs& args) {
  M* a = args.a.as<M>();
  M* b = args.b.as<M>();
  context.pool().for_ranges(args.a.cols, kChunk, [=](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) std::swap(a[i], b[i]);
  });
}

}  // namespace

void moving_average_cpu(Context& context, const MovingAverageArgs& args) {
  if (args.outcome->skipped != 0) return;
  if (args.value.dtype == DType::kF64) return average<double>(context, args);
  average<float>(context, args);
}

void exchange_cpu(Context& context, const ExchangeArgs& args) {
  if (args.a.dtype == DType::kF64) return exchange_elements<double>(context, args);
  exchange_elements<float>(context, args);
}

}  // namespace ventris
