// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "backend/device/context.h"

namespace ventris {

/// Numbers of one Adam step, on the device, written before the step (backend/ops/update_plan.h).
struct AdamScalars {
  float learning_rate;
  float gradient_scale;    // multiplies the gradient first: clipping
  float bias_correction1;  // 1 - beta1^step
  float bias_correction2;  // 1 - beta2^step
  int32_t skip = 0;        // not 0: the step changes nothing
};

/// Adam (Kingma and Ba 2015, algorithm 1) over a flat range:
///   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
///   value -= learning_rate * (m / bias_correction1) / (sqrt(v / bias_correction2) + epsilon)
/// and the compute copy, if any, is the rounded value. With scalars->skip nothing is read or written.
struct AdamArgs {
  Tensor value;          // [1, n] master
  ConstTensor gradient;  // [1, n] master
  Tensor m;              // [1, n] master
  Tensor v;              // [1, n] master
  Tensor compute = {};   // [1, n] bf16, or empty
  float beta1 = 0.9F;
  float beta2 = 0.98F;
  float epsilon = 1e-9F;
  const AdamScalars* scalars;  // on the device
};
void adam(Context& context, const AdamArgs& args);

}  // namespace ventris
