// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/device/context.h"

namespace ventris {

/// result[0] = sum of squares of x in f64, summed over a fixed tree. Not finite if any element is NaN or Inf.
struct SumOfSquaresArgs {
  ConstTensor x;   // [1, n] master
  double* result;  // [1] on the device
};
void sum_of_squares(Context& context, const SumOfSquaresArgs& args);

/// The two halves of sum_of_squares(), for ranges whose parts are in different places. Chunk k of a range is
/// its elements [k * kSquaresChunk, (k + 1) * kSquaresChunk).
inline constexpr int64_t kSquaresChunk = 16384;
constexpr int64_t squares_chunks(int64_t n) {
  return (n + kSquaresChunk - 1) / kSquaresChunk;
}

/// partial[k] = sum of squares of chunk k of x in f64.
struct SquaresOfChunksArgs {
  ConstTensor x;    // [1, n] master
  double* partial;  // [squares_chunks(n)] on the device
};
void squares_of_chunks(Context& context, const SquaresOfChunksArgs& args);

/// result[0] = sum of the partial sums. After squares_of_chunks() of a whole range: sum_of_squares(), bit by
/// bit.
struct SumOfChunksArgs {
  const double* partial;  // [count] on the device
  int64_t count;
  double* result;  // [1] on the device
};
void sum_of_chunks(Context& context, const SumOfChunksArgs& args);

}  // namespace ventris
