// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>

#include "backend/cpu/gemm.h"

namespace ventris {
namespace {

constexpr int64_t kRows = 32;   // of c per task
constexpr int64_t kCols = 128;  // of c per task
constexpr int64_t kDepth = 64;  // of the sum per packed block

// block[i][p] = op(x)[first + i][begin + p], in the dtype of the sums.
template <typename T, int64_t kStride>
void pack(const ConstTensor& x, bool transposed, int64_t first, int64_t count, int64_t begin, int64_t depth,
          Master<T>* block) {
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t p = 0; p < depth; ++p) {
      const T value = transposed ? x.row<T>(begin + p)[first + i] : x.row<T>(first + i)[begin + p];
      block[i * kStride + p] = static_cast<Master<T>>(value);
    }
  }
}

template <typename C, typename M>
void store(const GemmArgs& args, const M* sum, int64_t row, int64_t col, int64_t width) {
  C* c = args.c.row<C>(row) + col;
  const M* bias = args.bias ? args.bias.as<M>() + col : nullptr;
  for (int64_t j = 0; j < width; ++j) {
    M value = sum[j];
    if (bias != nullptr) value += bias[j];
    if (args.relu && !(value > M{0})) value = value == value ? M{0} : value;
    if (args.accumulate) value += static_cast<M>(c[j]);
    c[j] = static_cast<C>(value);
  }
}

template <typename T>
void tile(const GemmArgs& args, int64_t row, int64_t col, int64_t k) {
  using M = Master<T>;
  const int64_t height = std::min(kRows, args.c.rows - row);
  const int64_t width = std::min(kCols, args.c.cols - col);
  alignas(64) std::array<M, kRows * kDepth> a;
  alignas(64) std::array<M, kDepth * kCols> b;
  alignas(64) std::array<M, kRows * kCols> sum{};
  b.fill(M{0});
  for (int64_t begin = 0; begin < k; begin += kDepth) {
    const int64_t depth = std::min(kDepth, k - begin);
    pack<T, kDepth>(args.a, args.transpose_a, row, height, begin, depth, a.data());
    pack<T, kCols>(args.b, args.transpose_b, begin, depth, col, width, b.data());
    for (int64_t i = 0; i < height; ++i) {
      M* __restrict out = &sum[static_cast<size_t>(i * kCols)];
      for (int64_t p = 0; p < depth; ++p) {
        const M factor = a[static_cast<size_t>(i * kDepth + p)];
        const M* __restrict in = &b[static_cast<size_t>(p * kCols)];
        for (int64_t j = 0; j < kCols; ++j) out[j] = std::fma(factor, in[j], out[j]);
      }
    }
  }
  for (int64_t i = 0; i < height; ++i) {
    const M* line = &sum[static_cast<size_t>(i * kCols)];
    if (args.c.dtype == DTypeOf<T>::value) {
      store<T>(args, line, row + i, col, width);
    } else {
      store<M>(args, line, row + i, col, width);
    }
  }
}

template <typename T>
void gemm_typed(Context& context, const GemmArgs& args) {
  const int64_t k = args.transpose_a ? args.a.rows : args.a.cols;
  const int64_t across = (args.c.cols + kCols - 1) / kCols;
  const int64_t down = (args.c.rows + kRows - 1) / kRows;
  context.pool().for_each(across * down, [&](int64_t index, int) {
    tile<T>(args, index / across * kRows, index % across * kCols, k);
  });
}

}  // namespace

void gemm_reference(Context& context, const GemmArgs& args) {
  switch (args.b.dtype) {
    case DType::kF32:
      return gemm_typed<float>(context, args);
    case DType::kBF16:
      return gemm_typed<BF16>(context, args);
    case DType::kF64:
      return gemm_typed<double>(context, args);
  }
}

}  // namespace ventris
