// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/ops/packed_gemm.h"

namespace ventris {

/// Also writes c in bf16 if b is in f32.
void packed_gemm_cpu(Context& context, const PackedGemmArgs& args);

}  // namespace ventris
