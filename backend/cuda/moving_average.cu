// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/elements.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/ops/moving_average.h"

namespace ventris {
namespace {

using namespace cuda;

constexpr int kMovingAverageThreads = 256;

/// One thread: kPack elements, which only it writes. Grid: n / (kPack * kMovingAverageThreads).
template <bool kVectors>
__global__ void average_values(const float* value, float* average, int64_t count, double decay,
                               const StepOutcome* outcome) {
  const int64_t begin = (int64_t{blockIdx.x} * kMovingAverageThreads + threadIdx.x) * kPack;
  if (begin >= count || outcome->skipped != 0) return;
  const double start = static_cast<double>(1 + outcome->updates) / static_cast<double>(10 + outcome->updates);
  const auto share = static_cast<float>(1.0 - (decay < start ? decay : start));
  float x[kPack];
  float mean[kPack];
  load_pack<kVectors>(value, begin, count, x);
  load_pack<kVectors>(average, begin, count, mean);
  for (int i = 0; i < kPack; ++i) mean[i] += share * (x[i] - mean[i]);
  store_pack<kVectors>(average, begin, count, mean);
}

/// As above.
template <bool kVectors>
__global__ void exchange_values(float* a, float* b, int64_t count) {
  const int64_t begin = (int64_t{blockIdx.x} * kMovingAverageThreads + threadIdx.x) * kPack;
  if (begin >= count) return;
  float x[kPack];
  float y[kPack];
  load_pack<kVectors>(a, begin, count, x);
  load_pack<kVectors>(b, begin, count, y);
  store_pack<kVectors>(a, begin, count, y);
  store_pack<kVectors>(b, begin, count, x);
}

}  // namespace

void moving_average_cuda(Context& context, const MovingAverageArgs& args) {
  const int64_t count = args.value.cols;
  dispatch_flag(all_vectors_fit(args.value, args.average), [&](auto vectors) {
    launch({.name = "average_values",
            .grid = blocks_for(count, int64_t{kPack} * kMovingAverageThreads),
            .block = kMovingAverageThreads},
           stream_of(context), average_values<decltype(vectors)::value>, args.value.as<float>(),
           args.average.as<float>(), count, args.decay, args.outcome);
  });
}

void exchange_cuda(Context& context, const ExchangeArgs& args) {
  const int64_t count = args.a.cols;
  dispatch_flag(all_vectors_fit(args.a, args.b), [&](auto vectors) {
    launch({.name = "exchange_values",
            .grid = blocks_for(count, int64_t{kPack} * kMovingAverageThreads),
            .block = kMovingAverageThreads},
           stream_of(context), exchange_values<decltype(vectors)::value>, args.a.as<float>(),
           args.b.as<float>(), count);
  });
}

}  // namespace ventris
