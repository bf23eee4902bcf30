#pragma once

#include "backend/gemm.h"

namespace ventris {

/// Requires checked arguments (gemm.cc) and m, n > 0.
void gemm_cpu(Context& context, const GemmArgs& args);

/// The plain blocked loop: any dtype, any shape. It is used for f64, and is the reference in tests of the
/// fast paths.
void gemm_reference(Context& context, const GemmArgs& args);

}  // namespace ventris
