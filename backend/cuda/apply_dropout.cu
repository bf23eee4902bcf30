// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/elements.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/ops/apply_dropout.h"
#include "backend/ops/op_checks.h"

namespace ventris {
namespace {

using namespace cuda;

constexpr int kApplyDropoutThreads = 256;

/// One thread: kPack elements of a row, which only it writes. Grid: (cols / (kPack * kApplyDropoutThreads),
/// rows).
template <typename T, bool kVectors>
__global__ void drop_elements(Rows<T> x, Mask mask, int64_t rows, int64_t cols) {
  const int64_t begin = (int64_t{blockIdx.x} * kApplyDropoutThreads + threadIdx.x) * kPack;
  if (begin >= cols) return;
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    float v[kPack];
    load_pack<kVectors>(static_cast<const T*>(x.row(row)), begin, cols, v);
    mask.apply(static_cast<uint32_t>(row), static_cast<uint32_t>(begin / kPack), v);
    store_pack<kVectors>(x.row(row), begin, cols, v);
  }
}

}  // namespace

void apply_dropout_cuda(Context& context, const ApplyDropoutArgs& args) {
  if (args.x.rows == 0 || args.x.cols == 0) return;
  constexpr int64_t kMaxBlocks = 65535;  // of the second dimension of a grid
  const auto grid_rows = static_cast<unsigned>(args.x.rows < kMaxBlocks ? args.x.rows : kMaxBlocks);
  dispatch_device_dtype(args.x.dtype, "dropout", [&](auto tag) {
    using T = decltype(tag);
    dispatch_flag(all_vectors_fit(args.x), [&](auto vectors) {
      launch({.name = "drop_elements",
              .grid = dim3(blocks_for(args.x.cols, int64_t{kPack} * kApplyDropoutThreads), grid_rows),
              .block = kApplyDropoutThreads},
             stream_of(context), drop_elements<T, decltype(vectors)::value>, rows_of<T>(args.x),
             Mask(args.dropout), args.x.rows, args.x.cols);
    });
  });
}

}  // namespace ventris
