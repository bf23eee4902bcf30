// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/device/context.h"

namespace ventris {

/// Adds the column sums that operations were told to leave (`sums_later` in their arguments) to the gradients
/// of the parameters: on CUDA those of many operations in one launch. Until then these gradients are
/// incomplete. On the CPU nothing is ever left.
void complete_column_sums(Context& context);

}  // namespace ventris
