// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "backend/context.h"
#include "backend/flat_range.h"

namespace ventris {

/// Sets the elements of `flat`, [1, n] of a master dtype, in the ranges to zero. On CUDA one launch does 128
/// ranges, which begin at multiples of 8 elements.
void zero_ranges(Context& context, Tensor flat, std::span<const FlatRange> ranges);

}  // namespace ventris
