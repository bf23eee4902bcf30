#include "backend/cuda/column_sums.cuh"

#include <iterator>

#include "backend/cuda/intrinsics.cuh"

namespace ventris::cuda {
namespace {

constexpr int kGroups = 16;  // of rows that are summed in parallel

/// One block: 32 columns. Grid: (columns / 32, places); block: 32 x kGroups threads. Thread (x, y) sums rows
/// y, y + kGroups, ... of column x; the first row of threads adds the groups in order and writes the place.
__global__ void add_columns(const float* partial, int64_t count, int64_t stride, int64_t cols,
                            ColumnSums sums) {
  __shared__ float group_sums[kGroups][kWarp];
  float* to = sums.to[blockIdx.y];
  if (to == nullptr) return;
  partial += blockIdx.y * cols;
  const int64_t column = int64_t{blockIdx.x} * kWarp + threadIdx.x;
  float sum = 0.0F;
  if (column < cols) {
    for (int64_t k = threadIdx.y; k < count; k += kGroups) sum += partial[k * stride + column];
  }
  group_sums[threadIdx.y][threadIdx.x] = sum;
  sync_threads();
  if (threadIdx.y != 0 || column >= cols) return;
  for (int g = 1; g < kGroups; ++g) sum += group_sums[g][threadIdx.x];
  to[column] += sum;
}

}  // namespace

void add_column_sums(Context& context, const float* partial, int64_t count, int64_t stride, int64_t cols,
                     const ColumnSums& sums) {
  if (count == 0) return;
  unsigned places = 0;
  for (unsigned g = 0; g < std::size(sums.to); ++g) {
    if (sums.to[g] != nullptr) places = g + 1;
  }
  launch(
      {.name = "add_columns", .grid = dim3(blocks_for(cols, kWarp), places), .block = dim3(kWarp, kGroups)},
      stream_of(context), add_columns, partial, count, stride, cols, sums);
}

}  // namespace ventris::cuda
