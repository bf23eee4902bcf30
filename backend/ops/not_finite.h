// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "backend/device/context.h"

namespace ventris {

/// Positions of NaN or Inf, or -1 if there is none.
struct NotFinitePlaces {
  int64_t first_value;    // index of the first in the parameters, which forward reaches first
  int64_t last_gradient;  // index of the last in the gradients, which backward reaches first
};

/// Finds the NaN or Inf of a step. The cost for finite steps is negligible.
struct FindNotFiniteArgs {
  ConstTensor values;       // [1, n] master
  ConstTensor gradients;    // [1, n] master
  const int32_t* wanted;    // [1] on the device; 0: nothing is searched, and the positions are -1
  NotFinitePlaces* places;  // [1] on the device, overwritten
};
void find_not_finite(Context& context, const FindNotFiniteArgs& args);

}  // namespace ventris
