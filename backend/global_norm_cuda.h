#pragma once

#include "backend/global_norm.h"

namespace ventris {

void sum_of_squares_cuda(Context& context, const SumOfSquaresArgs& args);
int64_t first_not_finite_cuda(Context& context, ConstTensor x);

}  // namespace ventris
