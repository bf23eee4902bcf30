// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/device/context.h"
#include "backend/ops/dropout.h"

namespace ventris {

/// x = x * mask, in place; the mask includes the scale. Forward and backward are the same, as the mask is
/// computed again from its key.
struct ApplyDropoutArgs {
  Tensor x;  // [rows, n] T
  DropoutKey dropout;
};
/// Nothing if the key is not active().
void apply_dropout(Context& context, const ApplyDropoutArgs& args);

}  // namespace ventris
