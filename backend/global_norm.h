#pragma once

#include "backend/context.h"

namespace ventris {

/// result[0] = sum of squares of x in f64, summed over a fixed tree. Not finite if any element is NaN or Inf.
struct SumOfSquaresArgs {
  ConstTensor x;   // [1, n] master
  double* result;  // [1] on the device
};
void sum_of_squares(Context& context, const SumOfSquaresArgs& args);

}  // namespace ventris
