// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/zero_ranges.h"

namespace ventris {

/// Requires checked arguments.
void zero_ranges_cuda(Context& context, Tensor flat, std::span<const FlatRange> ranges);

}  // namespace ventris
