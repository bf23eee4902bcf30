#pragma once

#include "backend/global_norm.h"

namespace ventris {

void sum_of_squares_cpu(Context& context, const SumOfSquaresArgs& args);

}  // namespace ventris
