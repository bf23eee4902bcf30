// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/device/context.h"

namespace ventris {

/// destination = source, converted. Any pair of dtypes; equal shapes.
struct CastArgs {
  ConstTensor source;  // [rows, cols]
  Tensor destination;  // [rows, cols]
};
void cast(Context& context, const CastArgs& args);

/// Sets all elements to zero.
void fill_zero(Context& context, Tensor tensor);

}  // namespace ventris
