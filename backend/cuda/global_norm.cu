// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/elements.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/ops/global_norm.h"
#include "backend/ops/op_checks.h"

namespace ventris {
namespace {

using namespace cuda;

constexpr int kGlobalNormThreads = 256;

/// One block: the squares of a chunk, into its element of `partial`. Grid: the chunks.
template <bool kVectors>
__global__ void chunk_squares(const float* x, int64_t n, double* partial) {
  __shared__ double room[kGlobalNormThreads / kWarp];
  const int64_t first = int64_t{blockIdx.x} * kSquaresChunk;
  const int64_t end = first + kSquaresChunk < n ? first + kSquaresChunk : n;
  double sum = 0.0;
  for (int64_t begin = first + int64_t{threadIdx.x} * kPack; begin < end;
       begin += int64_t{kGlobalNormThreads} * kPack) {
    float v[kPack];
    load_pack<kVectors>(x, begin, n, v);
    for (int i = 0; i < kPack; ++i) sum += static_cast<double>(v[i]) * static_cast<double>(v[i]);
  }
  sum = block_sum(sum, room);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

/// One block in total: result = sum of the partial sums, over a fixed tree.
__global__ void sum_partials(const double* partial, int64_t count, double* result) {
  __shared__ double room[kGlobalNormThreads / kWarp];
  double sum = 0.0;
  for (int64_t i = threadIdx.x; i < count; i += kGlobalNormThreads) sum += partial[i];
  sum = block_sum(sum, room);
  if (threadIdx.x == 0) *result = sum;
}

}  // namespace

void squares_of_chunks_cuda(Context& context, const SquaresOfChunksArgs& args) {
  const int64_t n = args.x.cols;
  if (n == 0) return;
  dispatch_flag(vectors_fit(args.x), [&](auto vectors) {
    launch({.name = "chunk_squares", .grid = blocks_for(n, kSquaresChunk), .block = kGlobalNormThreads},
           stream_of(context), chunk_squares<decltype(vectors)::value>, args.x.as<float>(), n, args.partial);
  });
}

void sum_of_chunks_cuda(Context& context, const SumOfChunksArgs& args) {
  launch({.name = "sum_partials", .grid = 1, .block = kGlobalNormThreads}, stream_of(context), sum_partials,
         args.partial, args.count, args.result);
}

}  // namespace ventris
