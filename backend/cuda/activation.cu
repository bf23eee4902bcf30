// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "backend/cuda/elements.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/ops/activation.h"
#include "backend/ops/op_checks.h"

namespace ventris {
namespace {

using namespace cuda;

constexpr int kActivationThreads = 256;

struct Gelu {
  __device__ static float cumulative(float x) { return 0.5F * erfcf(x * -0.707106781F); }
  __device__ static float value(float x) { return x * cumulative(x); }
  __device__ static float slope(float x) { return cumulative(x) + x * (0.398942280F * expf(-0.5F * x * x)); }
};

struct Swish {
  __device__ static float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }
  __device__ static float value(float x) { return x * sigmoid(x); }
  __device__ static float slope(float x) {
    const float s = sigmoid(x);
    return s * (1.0F + x * (1.0F - s));
  }
};

/// One thread: kPack elements of a row, which only it writes. Without d_y: y = f(x), into `out`. With it,
/// which may be `out`: out = d_y * f'(x). Grid: (cols / (kPack * kActivationThreads), rows).
template <typename F, typename T, bool kVectors>
__global__ void activation(Rows<const T> x, Rows<const T> d_y, Rows<T> out, int64_t rows, int64_t cols) {
  const int64_t begin = (int64_t{blockIdx.x} * kActivationThreads + threadIdx.x) * kPack;
  if (begin >= cols) return;
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    float v[kPack];
    load_pack<kVectors>(x.row(row), begin, cols, v);
    if (d_y.data == nullptr) {
      for (int i = 0; i < kPack; ++i) v[i] = F::value(v[i]);
    } else {
      float gradient[kPack];
      load_pack<kVectors>(d_y.row(row), begin, cols, gradient);
      for (int i = 0; i < kPack; ++i) v[i] = gradient[i] * F::slope(v[i]);
    }
    store_pack<kVectors>(out.row(row), begin, cols, v);
  }
}

template <typename F>
void run_activation(Context& context, const ConstTensor& x, const ConstTensor& d_y, const Tensor& out) {
  if (out.rows == 0 || out.cols == 0) return;
  constexpr int64_t kMaxBlocks = 65535;  // of the second dimension of a grid
  const auto grid_rows = static_cast<unsigned>(out.rows < kMaxBlocks ? out.rows : kMaxBlocks);
  dispatch_device_dtype(out.dtype, "activation", [&](auto tag) {
    using T = decltype(tag);
    dispatch_flag(all_vectors_fit(x, d_y, out), [&](auto vectors) {
      launch({.name = "activation",
              .grid = dim3(blocks_for(out.cols, int64_t{kPack} * kActivationThreads), grid_rows),
              .block = kActivationThreads},
             stream_of(context), activation<F, T, decltype(vectors)::value>, rows_of<T>(x), rows_of<T>(d_y),
             rows_of<T>(out), out.rows, out.cols);
    });
  });
}

void run_activation_of(Activation activation, Context& context, const ConstTensor& x, const ConstTensor& d_y,
                       const Tensor& out) {
  activation == Activation::kGelu ? run_activation<Gelu>(context, x, d_y, out)
                                  : run_activation<Swish>(context, x, d_y, out);
}

}  // namespace

void activation_forward_cuda(Context& context, const ActivationForwardArgs& args) {
  run_activation_of(args.activation, context, args.x, {}, args.y);
}

void activation_backward_cuda(Context& context, const ActivationBackwardArgs& args) {
  run_activation_of(args.activation, context, args.x, args.d_y, args.d_y);
}

}  // namespace ventris
