// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "backend/device/context.h"

namespace ventris {

/// Makes tokens less likely, row by row and in place: a positive logit is divided by `penalty`, any other is
/// multiplied by it (Keskar et al. 2019, "CTRL", section 4.1, for logits of either sign). Row r has the
/// tokens [begin[r], begin[r + 1]) of `tokens`, each at most once.
struct RepetitionPenaltyArgs {
  Tensor logits;          // [rows, cols] T, in and out
  const int32_t* tokens;  // on the device, each in [0, cols)
  const int32_t* begin;   // [rows + 1] on the device
  float penalty;          // > 0
};
void repetition_penalty(Context& context, const RepetitionPenaltyArgs& args);

}  // namespace ventris
