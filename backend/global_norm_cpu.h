#pragma once

#include "backend/global_norm.h"

namespace ventris {

void sum_of_squares_cpu(Context& context, const SumOfSquaresArgs& args);
int64_t first_not_finite_cpu(Context& context, ConstTensor x);

}  // namespace ventris
