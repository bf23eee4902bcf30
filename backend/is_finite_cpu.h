// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/context.h"

namespace ventris {

/// Whether x, in f32 or bf16, holds neither NaN nor an infinity.
bool is_finite_cpu(Context& context, const ConstTensor& x);

}  // namespace ventris
