// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/ops/gemm.h"
#include "backend/ops/linear_backward.h"

namespace ventris {

/// `product` is that of d_weight. False, with nothing done, if it does not sum the columns.
bool linear_backward_cuda(Context& context, const LinearBackwardArgs& args, const GemmArgs& product);

}  // namespace ventris
