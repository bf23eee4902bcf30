#include <cfloat>
#include <cmath>

#include "backend/cuda/elements.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/global_norm_cuda.h"
#include "backend/op_checks.h"

namespace ventris {
namespace {

using namespace cuda;

constexpr int kThreads = 256;
constexpr int64_t kChunk = 16384;  // elements of one block

/// One block: the squares of kChunk elements, into its place of `partial`. Grid: n / kChunk.
template <bool kVectors>
__global__ void chunk_squares(const float* x, int64_t n, double* partial) {
  __shared__ double room[kThreads / kWarp];
  const int64_t first = int64_t{blockIdx.x} * kChunk;
  const int64_t end = first + kChunk < n ? first + kChunk : n;
  double sum = 0.0;
  for (int64_t begin = first + int64_t{threadIdx.x} * kPack; begin < end;
       begin += int64_t{kThreads} * kPack) {
    float v[kPack];
    load_pack<kVectors>(x, begin, n, v);
    for (int i = 0; i < kPack; ++i) sum += static_cast<double>(v[i]) * static_cast<double>(v[i]);
  }
  sum = block_sum(sum, room);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

/// One block in all: result = sum of the partial sums, over a fixed tree.
__global__ void sum_partials(const double* partial, int64_t count, double* result) {
  __shared__ double room[kThreads / kWarp];
  double sum = 0.0;
  for (int64_t i = threadIdx.x; i < count; i += kThreads) sum += partial[i];
  sum = block_sum(sum, room);
  if (threadIdx.x == 0) *result = sum;
}

/// One thread: every n-th element; the least index found by any goes to `first`. An integer minimum: no order
/// matters.
__global__ void find_not_finite(const float* x, int64_t n, unsigned long long* first) {
  const int64_t threads = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < n; i += threads) {
    if (!(fabsf(x[i]) <= FLT_MAX)) {
      atomic_min(first, static_cast<unsigned long long>(i));
      return;
    }
  }
}

}  // namespace

void sum_of_squares_cuda(Context& context, const SumOfSquaresArgs& args) {
  const int64_t n = args.x.cols;
  const int64_t chunks = (n + kChunk - 1) / kChunk;
  need_scratch(context, static_cast<size_t>(chunks) * sizeof(double));
  ArenaScope scope(context.scratch());
  double* partial = context.scratch().allocate_array<double>(chunks);
  dispatch_flag(vectors_fit(args.x), [&](auto vectors) {
    launch({.name = "chunk_squares", .grid = blocks_for(n, kChunk), .block = kThreads}, stream_of(context),
           chunk_squares<decltype(vectors)::value>, args.x.as<float>(), n, partial);
  });
  launch({.name = "sum_partials", .grid = 1, .block = kThreads}, stream_of(context), sum_partials, partial,
         chunks, args.result);
}

int64_t first_not_finite_cuda(Context& context, ConstTensor x) {
  need_scratch(context, sizeof(unsigned long long));
  ArenaScope scope(context.scratch());
  auto* first = context.scratch().allocate_array<unsigned long long>(1);
  VENTRIS_CUDA_CHECK(cudaMemsetAsync(first, 0xFF, sizeof(*first), stream_of(context)));
  constexpr int64_t kMostBlocks = 1024;
  const unsigned blocks =
      blocks_for(x.cols < kMostBlocks * kThreads ? x.cols : kMostBlocks * kThreads, kThreads);
  launch({.name = "find_not_finite", .grid = blocks, .block = kThreads}, stream_of(context), find_not_finite,
         x.as<float>(), x.cols, first);
  unsigned long long found = 0;
  VENTRIS_CUDA_CHECK(
      cudaMemcpyAsync(&found, first, sizeof(found), cudaMemcpyDeviceToHost, stream_of(context)));
  VENTRIS_CUDA_CHECK(cudaStreamSynchronize(stream_of(context)));
  return static_cast<int64_t>(found);  // all ones, where nothing was found, is -1
}

}  // namespace ventris
