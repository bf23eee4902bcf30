// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/gemm.h"
#include "backend/linear_backward.h"

namespace ventris {

/// `product` is that of d_weight. False, with nothing done, if it does not sum the columns.
bool linear_backward_cuda(Context& context, const LinearBackwardArgs& args, const GemmArgs& product);

}  // namespace ventris
