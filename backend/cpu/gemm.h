// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/ops/gemm.h"

namespace ventris {

/// Requires checked arguments (ops/gemm.cc) and m, n > 0.
void gemm_cpu(Context& context, const GemmArgs& args);

}  // namespace ventris
