// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/swish.h"
#include "backend/cpu/simd.h"
#include "backend/ops/op_checks.h"

namespace ventris {
namespace {

constexpr int64_t kRows = 16;  // rows of one piece of work

template <typename M>
M sigmoid(M x) {
  return M{1} / (M{1} + exp_approx(-x));
}

template <typename T>
void forward(Context& context, const SwishForwardArgs& args) {
  const int64_t cols = args.y.cols;
  context.pool().for_ranges(args.y.rows, kRows, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const T* x = args.x.row<T>(row);
      T* y = args.y.row<T>(row);
#pragma omp simd
      for (int64_t i = 0; i < cols; ++i) {
        const Master<T> value = load(x[i]);
        store(y[i], value * sigmoid(value));
      }
    }
  });
}

template <typename T>
void backward(Context& context, const SwishBackwardArgs& args) {
  using M = Master<T>;
  const int64_t cols = args.d_y.cols;
  context.pool().for_ranges(args.d_y.rows, kRows, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const T* __restrict x = args.x.row<T>(row);
      T* __restrict gradient = args.d_y.row<T>(row);
#pragma omp simd
      for (int64_t i = 0; i < cols; ++i) {
        const M value = load(x[i]);
        const M s = sigmoid(value);
        store(gradient[i], load(gradient[i]) * (s * std::fma(value, M{1} - s, M{1})));
      }
    }
  });
}

}  // namespace

void swish_forward_cpu(Context& context, const SwishForwardArgs& args) {
  dispatch_dtype(args.y.dtype, [&](auto tag) { forward<decltype(tag)>(context, args); });
}

void swish_backward_cpu(Context& context, const SwishBackwardArgs& args) {
  dispatch_dtype(args.d_y.dtype, [&](auto tag) { backward<decltype(tag)>(context, args); });
}

}  // namespace ventris
