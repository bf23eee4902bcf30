#pragma once

#include <cstdint>

#include "backend/context.h"
#include "backend/cuda/launch.cuh"

namespace ventris::cuda {

/// Destinations of the sums of adjacent groups of columns; groups without one are skipped.
struct ColumnSums {
  float* to[3] = {};
};
/// to[g][c] += sum over k of partial[k * stride + g * cols + c], in a fixed order, for c < cols.
void add_column_sums(Context& context, const float* partial, int64_t count, int64_t stride, int64_t cols,
                     const ColumnSums& sums);

/// Rows of one block of a kernel that computes partial column sums: depends only on the number of rows.
constexpr int64_t rows_of_partial(int64_t rows) {
  constexpr int64_t kMax = 264;  // blocks; twice the multiprocessors of the largest chips
  constexpr int64_t kMin = 32;
  const int64_t spread = (rows + kMax - 1) / kMax;
  return spread < kMin ? kMin : spread;
}

}  // namespace ventris::cuda
