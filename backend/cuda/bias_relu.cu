// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "backend/cuda/column_sums.cuh"
#include "backend/cuda/elements.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/ops/bias_relu.h"
#include "backend/ops/op_checks.h"

namespace ventris {
namespace {

using namespace cuda;

constexpr int kBiasReluWarps = 8;
constexpr int kCols = kWarp * kPack;  // columns of one block
constexpr int kRowsAtOnce = 4;        // of a warp, so that enough loads are under way

template <typename T>
struct BiasReluProblem {
  Rows<T> d_y;
  Rows<const T> y;  // or null
  int64_t rows;
  int cols;  // of a group
  int64_t first, period;
  int64_t block_rows;
  float* partial;  // [rows / block_rows, groups, cols]
};

/// One block: kCols columns of a group, and `block_rows` rows. Grid: (columns / kCols, rows / block_rows,
/// groups); block: kBiasReluWarps warps, lane l holds columns [l * kPack, (l + 1) * kPack), warp w takes rows
/// w, w + kBiasReluWarps, ... If y is given, d_y is masked in place. The block's column sums go to its row of
/// `partial`.
template <typename T, bool kWhole>
__global__ void __launch_bounds__(kBiasReluWarps* kWarp) sum_columns(BiasReluProblem<T> f) {
  __shared__ float sums[kBiasReluWarps][kCols];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int begin = static_cast<int>(blockIdx.x) * kCols + lane * kPack;
  const int64_t group = f.first + blockIdx.z * f.period;
  const int64_t first = int64_t{blockIdx.y} * f.block_rows;
  const int64_t end = first + f.block_rows < f.rows ? first + f.block_rows : f.rows;
  float sum[kPack] = {};
  if (begin < f.cols) {
    for (int64_t r = first + warp; r < end; r += kBiasReluWarps * kRowsAtOnce) {
      Packed<T> packed[kRowsAtOnce] = {};
      Packed<T> kept[kRowsAtOnce] = {};
#pragma unroll
      for (int k = 0; k < kRowsAtOnce; ++k) {
        const int64_t row = r + k * kBiasReluWarps;
        if (row >= end) break;
        packed[k] = load_row_pack<kWhole>(f.d_y.row(row) + group, begin, f.cols);
        if (f.y.data != nullptr) kept[k] = load_row_pack<kWhole>(f.y.row(row) + group, begin, f.cols);
      }
#pragma unroll
      for (int k = 0; k < kRowsAtOnce; ++k) {
        const int64_t row = r + k * kBiasReluWarps;
        if (row >= end) break;
        float v[kPack];
        unpack(packed[k], v);
        if (f.y.data != nullptr) {
          float y[kPack];
          unpack(kept[k], y);
          for (int i = 0; i < kPack; ++i) v[i] = y[i] > 0.0F ? v[i] : 0.0F;
          store_row_pack<kWhole>(f.d_y.row(row) + group, begin, f.cols, v);
        }
        for (int i = 0; i < kPack; ++i) sum[i] += v[i];
      }
    }
  }
  for (int i = 0; i < kPack; ++i) sums[warp][lane * kPack + i] = sum[i];
  sync_threads();
  const int column = static_cast<int>(blockIdx.x * kCols + threadIdx.x);
  if (column >= f.cols) return;
  float total = 0.0F;
  for (int w = 0; w < kBiasReluWarps; ++w) total += sums[w][threadIdx.x];
  f.partial[(int64_t{blockIdx.y} * gridDim.z + blockIdx.z) * f.cols + column] = total;
}

void run_bias_relu(Context& context, const Tensor& d_y, const ConstTensor& y, const Tensor& d_bias,
                   const ColumnGroups& columns, bool later) {
  const int64_t rows = d_y.rows;
  if (rows == 0 || d_y.cols == 0) return;
  const int64_t groups = columns.groups(d_y.cols);
  const int64_t block_rows = rows_of_partial(rows);
  const int64_t partials = (rows + block_rows - 1) / block_rows;
  ColumnParts parts(context, partials, groups * columns.count, later);
  dispatch_device_dtype(d_y.dtype, "bias_backward", [&](auto tag) {
    using T = decltype(tag);
    const BiasReluProblem<T> f{.d_y = rows_of<T>(d_y),
                               .y = rows_of<T>(y),
                               .rows = rows,
                               .cols = static_cast<int>(columns.count),
                               .first = columns.first,
                               .period = columns.period,
                               .block_rows = block_rows,
                               .partial = parts.data()};
    const bool whole = columns.count % kPack == 0 &&
                       all_vectors_fit(d_y.col_range(columns.first, columns.count), y) &&
                       (groups == 1 || columns.period % kPack == 0);
    dispatch_flag(whole, [&](auto flag) {
      launch({.name = "sum_columns",
              .grid = dim3(blocks_for(columns.count, kCols), static_cast<unsigned>(partials),
                           static_cast<unsigned>(groups)),
              .block = kBiasReluWarps * kWarp},
             stream_of(context), sum_columns<T, decltype(flag)::value>, f);
    });
  });
  std::vector<float*> to;
  for (int64_t g = 0; g < groups; ++g) {
    const Tensor part = d_bias.col_range(columns.first + g * columns.period, columns.count);
    to.push_back(d_bias ? part.as<float>() : nullptr);
  }
  parts.sum(columns.count, to);
}

}  // namespace

void bias_relu_backward_cuda(Context& context, const BiasReluBackwardArgs& args) {
  run_bias_relu(context, args.d_y, args.y, args.d_bias,
                {.first = 0, .count = args.d_y.cols, .period = args.d_y.cols}, args.sums_later);
}

void bias_backward_cuda(Context& context, const BiasBackwardArgs& args) {
  // Without y the gradient is only read.
  const ConstTensor& d_y = args.d_y;
  run_bias_relu(context, {const_cast<void*>(d_y.data), d_y.rows, d_y.cols, d_y.stride, d_y.dtype}, {},
                args.d_bias, args.columns, args.sums_later);
}

}  // namespace ventris
