// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "backend/cpu/simd.h"
#include "backend/ops/adam.h"

namespace ventris {
namespace {

constexpr int64_t kChunk = 16384;  // elements of one piece of work

template <bool kCompute, typename M>
void run(Context& context, const AdamArgs& args) {
  const AdamScalars& scalars = *args.scalars;
  const M gradient_scale = static_cast<M>(scalars.gradient_scale);
  const M beta1 = static_cast<M>(args.beta1);
  const M beta2 = static_cast<M>(args.beta2);
  const M rest1 = M{1} - beta1;
  const M rest2 = M{1} - beta2;
  const M step = static_cast<M>(scalars.learning_rate) / static_cast<M>(scalars.bias_correction1);
  const M inverse2 = M{1} / static_cast<M>(scalars.bias_correction2);
  const M epsilon = static_cast<M>(args.epsilon);
  const M* gradient = args.gradient.as<M>();
  M* value = args.value.as<M>();
  M* m = args.m.as<M>();
  M* v = args.v.as<M>();
  [[maybe_unused]] BF16* compute = kCompute ? args.compute.as<BF16>() : nullptr;
  context.pool().for_ranges(args.value.cols, kChunk, [=](int64_t begin, int64_t end, int) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) {
      const M g = gradient[i] * gradient_scale;
      const M new_m = std::fma(beta1, m[i], rest1 * g);
      const M new_v = std::fma(beta2, v[i], rest2 * (g * g));
      const M new_value = value[i] - step * new_m / (std::sqrt(new_v * inverse2) + epsilon);
      m[i] = new_m;
      v[i] = new_v;
      value[i] = new_value;
      if constexpr (kCompute) store(compute[i], static_cast<float>(new_value));
    }
  });
}

}  // namespace

void adam_cpu(Context& context, const AdamArgs& args) {
  if (args.scalars->skip != 0) return;
  if (args.value.dtype == DType::kF64) {
    args.compute ? run<true, double>(context, args) : run<false, double>(context, args);
  } else {
    args.compute ? run<true, float>(context, args) : run<false, float>(context, args);
  }
}

}  // namespace ventris
