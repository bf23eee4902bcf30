// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "backend/cuda/elements.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/ops/op_checks.h"
#include "backend/ops/swish.h"

namespace ventris {
namespace {

using namespace cuda;

constexpr int kSwishThreads = 256;

__device__ inline float sigmoid(float x) {
  return 1.0F / (1.0F + expf(-x));
}

/// One thread: kPack elements of a row, which only it writes. Without d_y: y = swish(x), into `out`. With it,
/// which may be `out`: out = d_y * swish'(x). Grid: (cols / (kPack * kSwishThreads), rows).
template <typename T, bool kVectors>
__global__ void swish(Rows<const T> x, Rows<const T> d_y, Rows<T> out, int64_t rows, int64_t cols) {
  const int64_t begin = (int64_t{blockIdx.x} * kSwishThreads + threadIdx.x) * kPack;
  if (begin >= cols) return;
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    float v[kPack];
    load_pack<kVectors>(x.row(row), begin, cols, v);
    if (d_y.data == nullptr) {
      for (int i = 0; i < kPack; ++i) v[i] *= sigmoid(v[i]);
    } else {
      float gradient[kPack];
      load_pack<kVectors>(d_y.row(row), begin, cols, gradient);
      for (int i = 0; i < kPack; ++i) {
        const float s = sigmoid(v[i]);
        v[i] = gradient[i] * (s * (1.0F + v[i] * (1.0F - s)));
      }
    }
    store_pack<kVectors>(out.row(row), begin, cols, v);
  }
}

void run_swish(Context& context, const ConstTensor& x, const ConstTensor& d_y, const Tensor& out) {
  if (out.rows == 0 || out.cols == 0) return;
  constexpr int64_t kMaxBlocks = 65535;  // of the second dimension of a grid
  const auto grid_rows = static_cast<unsigned>(out.rows < kMaxBlocks ? out.rows : kMaxBlocks);
  dispatch_device_dtype(out.dtype, "swish", [&](auto tag) {
    using T = decltype(tag);
    dispatch_flag(all_vectors_fit(x, d_y, out), [&](auto vectors) {
      launch({.name = "swish",
              .grid = dim3(blocks_for(out.cols, int64_t{kPack} * kSwishThreads), grid_rows),
              .block = kSwishThreads},
             stream_of(context), swish<T, decltype(vectors)::value>, rows_of<T>(x), rows_of<T>(d_y),
             rows_of<T>(out), out.rows, out.cols);
    });
  });
}

}  // namespace

void swish_forward_cuda(Context& context, const SwishForwardArgs& args) {
  run_swish(context, args.x, {}, args.y);
}

void swish_backward_cuda(Context& context, const SwishBackwardArgs& args) {
  run_swish(context, args.x, args.d_y, args.d_y);
}

}  // namespace ventris
