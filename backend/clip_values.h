// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/context.h"

namespace ventris {

/// x = min(max(x, -limit), limit), element by element; NaN stays.
struct ClipValuesArgs {
  Tensor x;      // [1, n] master
  double limit;  // above 0
};
void clip_values(Context& context, const ClipValuesArgs& args);

}  // namespace ventris
