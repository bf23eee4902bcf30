#include "backend/add.h"
#include "backend/cuda/add.cuh"
#include "backend/cuda/elements.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/kernels_cuda.h"

namespace ventris {
namespace {

using namespace cuda;

constexpr int kThreads = 256;

/// One thread: kPack elements, which only it writes. Grid: n / (kPack * kThreads).
template <bool kVectors>
__global__ void add_floats(const float* a, const float* b, float* sum, int64_t count) {
  const int64_t begin = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kPack;
  if (begin >= count) return;
  float x[kPack];
  load_pack<kVectors>(a, begin, count, x);
  if (b != nullptr) {
    float y[kPack];
    load_pack<kVectors>(b, begin, count, y);
    for (int i = 0; i < kPack; ++i) x[i] += y[i];
  }
  store_pack<kVectors>(sum, begin, count, x);
}

/// One thread: one element. Grid: n / kThreads.
__global__ void add_doubles(const double* a, const double* b, double* sum, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < count) sum[i] = b == nullptr ? a[i] : a[i] + b[i];
}

}  // namespace

void cuda::add_in_stream(cudaStream_t stream, const AddArgs& args) {
  const int64_t count = args.sum.cols;
  if (args.a.dtype == DType::kF64) {
    launch({.name = "add_doubles", .grid = blocks_for(count, kThreads), .block = kThreads}, stream,
           add_doubles, args.a.as<double>(), args.b ? args.b.as<double>() : nullptr, args.sum.as<double>(),
           count);
    return;
  }
  dispatch_flag(all_vectors_fit(args.a, args.b, args.sum), [&](auto vectors) {
    launch({.name = "add_floats", .grid = blocks_for(count, int64_t{kPack} * kThreads), .block = kThreads},
           stream, add_floats<decltype(vectors)::value>, args.a.as<float>(),
           args.b ? args.b.as<float>() : nullptr, args.sum.as<float>(), count);
  });
}

void add_cuda(Context& context, const AddArgs& args) {
  cuda::add_in_stream(stream_of(context), args);
}

}  // namespace ventris
