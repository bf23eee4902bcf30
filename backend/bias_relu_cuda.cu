#include "backend/bias_relu.h"
#include "backend/cuda/column_sums.cuh"
#include "backend/cuda/elements.cuh"
#include "backend/kernels_cuda.h"
#include "backend/op_checks.h"

namespace ventris {
namespace {

using namespace cuda;

constexpr int kWarps = 8;
constexpr int64_t kCols = int64_t{kWarp} * kPack;  // columns of one block

/// One block: kCols columns of `block_rows` rows. Grid: (columns / kCols, rows / block_rows); block: kWarps
/// warps, lane l holds columns [l * kPack, (l + 1) * kPack), warp w takes rows w, w + kWarps, ... If y is
/// given, d_y is masked in place. The block's column sums go to its row of `partial`.
template <typename T, bool kVectors>
__global__ void sum_columns(Rows<T> d_y, Rows<const T> y, int64_t rows, int64_t cols, int64_t block_rows,
                            float* partial) {
  __shared__ float sums[kWarps][kCols];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t begin = int64_t{blockIdx.x} * kCols + lane * kPack;
  const int64_t first = int64_t{blockIdx.y} * block_rows;
  const int64_t end = first + block_rows < rows ? first + block_rows : rows;
  float sum[kPack] = {};
  if (begin < cols) {
    for (int64_t r = first + warp; r < end; r += kWarps) {
      float v[kPack];
      load_pack<kVectors>(d_y.row(r), begin, cols, v);
      if (y.data != nullptr) {
        float kept[kPack];
        load_pack<kVectors>(y.row(r), begin, cols, kept);
        for (int i = 0; i < kPack; ++i) v[i] = kept[i] > 0.0F ? v[i] : 0.0F;
        store_pack<kVectors>(d_y.row(r), begin, cols, v);
      }
      for (int i = 0; i < kPack; ++i) sum[i] += v[i];
    }
  }
  for (int i = 0; i < kPack; ++i) sums[warp][lane * kPack + i] = sum[i];
  sync_threads();
  const int64_t column = int64_t{blockIdx.x} * kCols + threadIdx.x;
  if (column >= cols) return;
  float total = 0.0F;
  for (int w = 0; w < kWarps; ++w) total += sums[w][threadIdx.x];
  partial[blockIdx.y * cols + column] = total;
}

void run(Context& context, const Tensor& d_y, const ConstTensor& y, const Tensor& d_bias) {
  const int64_t rows = d_y.rows;
  const int64_t cols = d_y.cols;
  if (rows == 0 || cols == 0) return;
  const int64_t block_rows = rows_of_partial(rows);
  const int64_t partials = (rows + block_rows - 1) / block_rows;
  need_scratch(context, static_cast<size_t>(partials * cols) * sizeof(float));
  ArenaScope scope(context.scratch());
  float* partial = context.scratch().allocate_array<float>(partials * cols);
  dispatch_device_dtype(d_y.dtype, "bias_backward", [&](auto tag) {
    using T = decltype(tag);
    dispatch_flag(all_vectors_fit(d_y, y), [&](auto vectors) {
      launch({.name = "sum_columns",
              .grid = dim3(blocks_for(cols, kCols), static_cast<unsigned>(partials)),
              .block = kWarps * kWarp},
             stream_of(context), sum_columns<T, decltype(vectors)::value>, rows_of<T>(d_y), rows_of<T>(y),
             rows, cols, block_rows, partial);
    });
  });
  add_column_sums(context, partial, partials, cols, cols, {{d_bias.as<float>()}});
}

}  // namespace

void bias_relu_backward_cuda(Context& context, const BiasReluBackwardArgs& args) {
  run(context, args.d_y, args.y, args.d_bias);
}

void bias_backward_cuda(Context& context, const BiasBackwardArgs& args) {
  // Without y the gradient is only read.
  const ConstTensor& d_y = args.d_y;
  run(context, {const_cast<void*>(d_y.data), d_y.rows, d_y.cols, d_y.stride, d_y.dtype}, {}, args.d_bias);
}

}  // namespace ventris
