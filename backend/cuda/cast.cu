// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/elements.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/ops/cast.h"

namespace ventris {
namespace {

using namespace cuda;

constexpr int kCastThreads = 256;

/// Positions of the packs of a matrix: a contiguous one is treated as a single long row.
struct Packs {
  int64_t cols;
  int64_t packs_per_row;
  int64_t count;
};

Packs packs_of(int64_t rows, int64_t cols, bool contiguous) {
  const int64_t width = contiguous ? rows * cols : cols;
  const int64_t per_row = (width + kPack - 1) / kPack;
  return {width, per_row, (contiguous ? 1 : rows) * per_row};
}

/// One thread: one pack, which only it writes. Grid: packs / kCastThreads.
template <typename From, typename To, bool kVectors>
__global__ void cast_packs(Rows<const From> source, Rows<To> destination, Packs packs) {
  const int64_t i = int64_t{blockIdx.x} * kCastThreads + threadIdx.x;
  if (i >= packs.count) return;
  const int64_t row = i / packs.packs_per_row;
  const int64_t begin = i % packs.packs_per_row * kPack;
  float v[kPack];
  load_pack<kVectors>(source.row(row), begin, packs.cols, v);
  store_pack<kVectors>(destination.row(row), begin, packs.cols, v);
}

}  // namespace

void cast_cuda(Context& context, const CastArgs& args) {
  const Packs packs =
      packs_of(args.source.rows, args.source.cols, args.source.contiguous() && args.destination.contiguous());
  dispatch_device_dtype(args.source.dtype, "cast", [&](auto from) {
    dispatch_device_dtype(args.destination.dtype, "cast", [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      dispatch_flag(all_vectors_fit(args.source, args.destination), [&](auto vectors) {
        launch({.name = "cast_packs", .grid = blocks_for(packs.count, kCastThreads), .block = kCastThreads},
               stream_of(context), cast_packs<From, To, decltype(vectors)::value>, rows_of<From>(args.source),
               rows_of<To>(args.destination), packs);
      });
    });
  });
}

void fill_zero_cuda(Context& context, const Tensor& tensor) {
  const auto row_bytes = static_cast<size_t>(tensor.cols) * size_of(tensor.dtype);
  if (tensor.contiguous()) {
    VENTRIS_CUDA_CHECK(
        cudaMemsetAsync(tensor.data, 0, static_cast<size_t>(tensor.rows) * row_bytes, stream_of(context)));
    return;
  }
  const auto pitch = static_cast<size_t>(tensor.stride) * size_of(tensor.dtype);
  VENTRIS_CUDA_CHECK(cudaMemset2DAsync(tensor.data, pitch, 0, row_bytes, static_cast<size_t>(tensor.rows),
                                       stream_of(context)));
}

}  // namespace ventris
