// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backend/cpu/simd.h"
#include "backend/ops/bias_relu.h"
#include "backend/ops/op_checks.h"

namespace ventris {
namespace {

// Column sums: each range of kRows rows is summed separately, in row order, and the sums of the ranges are
// added in order. The ranges are fixed, so the bits do not depend on the number of threads.
constexpr int64_t kRows = 128;
constexpr int64_t kCols = 512;  // accumulators that stay in the first-level cache

// `mask` is null, or the y of ReLU. `d_bias` may be empty.
template <typename T>
void sum_columns(Context& context, Tensor d_y, const ConstTensor* mask, Tensor d_bias) {
  using M = Master<T>;
  const int64_t rows = d_y.rows;
  const int64_t cols = d_y.cols;
  const int64_t ranges = (rows + kRows - 1) / kRows;
  if (ranges == 0 || cols == 0) return;
  need_scratch(context, static_cast<size_t>(ranges * cols) * sizeof(M));
  ArenaScope scope(context.scratch());
  M* partial = context.scratch().allocate_array<M>(ranges * cols);
  context.pool().for_ranges(rows, kRows, [&](int64_t begin, int64_t end, int) {
    M* sums = partial + begin / kRows * cols;
    for (int64_t left = 0; left < cols; left += kCols) {
      const int64_t width = std::min(kCols, cols - left);
      M* __restrict sum = sums + left;
      std::fill_n(sum, width, M{0});
      for (int64_t row = begin; row < end; ++row) {
        T* __restrict gradient = d_y.row<T>(row) + left;
        if (mask != nullptr) {
          const T* __restrict y = mask->row<T>(row) + left;
          for (int64_t i = 0; i < width; ++i) {
            const T kept = load(y[i]) > M{0} ? gradient[i] : T{};
            gradient[i] = kept;
            sum[i] += load(kept);
          }
        } else {
          for (int64_t i = 0; i < width; ++i) sum[i] += load(gradient[i]);
        }
      }
    }
  });
  if (!d_bias) return;
  M* __restrict total = d_bias.as<M>();
  for (int64_t range = 0; range < ranges; ++range) {
    const M* __restrict sums = partial + range * cols;
    for (int64_t i = 0; i < cols; ++i) total[i] += sums[i];
  }
}

void sum_columns_any(Context& context, Tensor d_y, const ConstTensor* mask, Tensor d_bias) {
  dispatch_dtype(d_y.dtype, [&](auto tag) { sum_columns<decltype(tag)>(context, d_y, mask, d_bias); });
}

}  // namespace

void bias_relu_backward_cpu(Context& context, const BiasReluBackwardArgs& args) {
  sum_columns_any(context, args.d_y, &args.y, args.d_bias);
}

void bias_backward_cpu(Context& context, const BiasBackwardArgs& args) {
  // Without a mask the gradient is only read.
  const ConstTensor& d_y = args.d_y;
  sum_columns_any(context, {const_cast<void*>(d_y.data), d_y.rows, d_y.cols, d_y.stride, d_y.dtype}, nullptr,
                  args.d_bias);
}

}  // namespace ventris
