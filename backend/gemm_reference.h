#pragma once

#include "backend/gemm.h"

namespace ventris {

/// The plain blocked loop: any dtype, any shape. It serves f64 and is what the fast paths are tested against.
void gemm_reference(Context& context, const GemmArgs& args);

}  // namespace ventris
