// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/ops/gemm.h"

namespace ventris {

/// The plain blocked loop: any dtype, any shape. It is used for f64, and is the reference in tests of the
/// fast paths.
void gemm_reference(Context& context, const GemmArgs& args);

}  // namespace ventris
