// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "backend/cuda/elements.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/ops/adam.h"

namespace ventris {
namespace {

using namespace cuda;

constexpr int kAdamThreads = 256;

struct Ranges {
  float* value;
  const float* gradient;
  float* m;
  float* v;
  BF16* compute;  // or null
  int64_t count;
};
struct Constants {
  float beta1, beta2, epsilon;
};

/// One thread: kPack elements of all ranges, which it alone writes, in one pass over memory.
/// Grid: n / (kPack * kAdamThreads).
template <bool kVectors>
__global__ void adam_step(Ranges ranges, Constants constants, const AdamScalars* scalars) {
  const int64_t begin = (int64_t{blockIdx.x} * kAdamThreads + threadIdx.x) * kPack;
  if (begin >= ranges.count || scalars->skip != 0) return;
  const float gradient_scale = scalars->gradient_scale;
  const float step = scalars->learning_rate / scalars->bias_correction1;
  const float inverse2 = 1.0F / scalars->bias_correction2;
  float value[kPack];
  float gradient[kPack];
  float m[kPack];
  float v[kPack];
  load_pack<kVectors>(ranges.value, begin, ranges.count, value);
  load_pack<kVectors>(ranges.gradient, begin, ranges.count, gradient);
  load_pack<kVectors>(ranges.m, begin, ranges.count, m);
  load_pack<kVectors>(ranges.v, begin, ranges.count, v);
  for (int i = 0; i < kPack; ++i) {
    const float g = gradient[i] * gradient_scale;
    m[i] = constants.beta1 * m[i] + (1.0F - constants.beta1) * g;
    v[i] = constants.beta2 * v[i] + (1.0F - constants.beta2) * (g * g);
    value[i] -= step * m[i] / (sqrtf(v[i] * inverse2) + constants.epsilon);
  }
  store_pack<kVectors>(ranges.value, begin, ranges.count, value);
  store_pack<kVectors>(ranges.m, begin, ranges.count, m);
  store_pack<kVectors>(ranges.v, begin, ranges.count, v);
  if (ranges.compute != nullptr) store_pack<kVectors>(ranges.compute, begin, ranges.count, value);
}

}  // namespace

void adam_cuda(Context& context, const AdamArgs& args) {
  const Ranges ranges{args.value.as<float>(),
                      args.gradient.as<float>(),
                      args.m.as<float>(),
                      args.v.as<float>(),
                      args.compute ? args.compute.as<BF16>() : nullptr,
                      args.value.cols};
  const Constants constants{args.beta1, args.beta2, args.epsilon};
  dispatch_flag(all_vectors_fit(args.value, args.gradient, args.m, args.v, args.compute), [&](auto vectors) {
    launch({.name = "adam_step",
            .grid = blocks_for(ranges.count, int64_t{kPack} * kAdamThreads),
            .block = kAdamThreads},
           stream_of(context), adam_step<decltype(vectors)::value>, ranges, constants, args.scalars);
  });
}

}  // namespace ventris
