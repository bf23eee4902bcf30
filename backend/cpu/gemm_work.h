// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "backend/cpu/block_sums.h"
#include "backend/cpu/gemm_layout.h"
#include "backend/cpu/simd.h"
#include "backend/device/context.h"
#include "backend/device/tensor.h"

/// The work memory of products, and copies into it.
namespace ventris {

inline constexpr int64_t kConvertedRows = 32;  // of a task

/// Pieces of one allocation; only measures if `base` is null.
class Pieces {
 public:
  explicit Pieces(char* base) : base_(base) {}
  template <typename E>
  E* take(int64_t count) {
    constexpr int64_t kAlignment = 64;
    char* const piece = base_ == nullptr ? nullptr : base_ + used_;
    const auto size = static_cast<int64_t>(sizeof(E));
    used_ += (count * size + kAlignment - 1) / kAlignment * kAlignment;
    return reinterpret_cast<E*>(piece);
  }
  Tensor matrix(int64_t rows, int64_t cols) {
    constexpr int64_t kApart = 16;  // so that the stride is not a power of two
    const int64_t stride = cols + kApart;
    return {take<float>(rows * stride), rows, cols, stride, DType::kF32};
  }
  int64_t used() const { return used_; }

 private:
  char* base_;
  int64_t used_ = 0;
};

/// to = from in the dtype of `to`. Fetches rows ahead: parts of them end before hardware foresees more.
template <typename From, typename To>
void convert(Context& context, const ConstTensor& from, const Tensor& to) {
  context.pool().for_ranges(to.rows, kConvertedRows, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const From* x = from.row<From>(r);
      To* y = to.row<To>(r);
      for (int64_t c = 0; c < to.cols; c += kOfLine<From>)
        __builtin_prefetch(x + kFetchedRows * from.stride + c);
#pragma omp simd
      for (int64_t c = 0; c < to.cols; ++c) store(y[c], load(x[c]));
    }
  });
}

/// The first rows and columns of a matrix.
inline Tensor corner(const Tensor& x, int64_t rows, int64_t cols) {
  return {x.data, rows, cols, x.stride, x.dtype};
}

}  // namespace ventris
