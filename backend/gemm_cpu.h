#pragma once

#include "backend/gemm.h"

namespace ventris {

/// Requires checked arguments (gemm.cc) and m, n > 0.
void gemm_cpu(Context& context, const GemmArgs& args);

/// The plain blocked loop: any dtype, any shape. It serves f64 and is what the fast paths are tested against.
void gemm_reference(Context& context, const GemmArgs& args);

}  // namespace ventris
