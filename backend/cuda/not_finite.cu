// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstddef>

#include "backend/cuda/intrinsics.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/ops/not_finite.h"

namespace ventris {
namespace {

using namespace cuda;

constexpr int kNotFiniteThreads = 256;
constexpr int64_t kMaxBlocks = 1024;

/// The members of NotFinitePlaces as operands of the atomics; both start as -1, all ones.
struct Places {
  unsigned long long* first_value;
  long long* last_gradient;
};

__device__ inline bool is_finite_value(float x) {
  return fabsf(x) <= FLT_MAX;
}

/// One thread: every n-th element of both ranges, n being the number of threads. An integer minimum and a
/// maximum do not depend on the order.
__global__ void search(const float* values, const float* gradients, int64_t count, const int32_t* wanted,
                       Places places) {
  if (*wanted == 0) return;
  const int64_t threads = int64_t{gridDim.x} * kNotFiniteThreads;
  const int64_t first = int64_t{blockIdx.x} * kNotFiniteThreads + threadIdx.x;
  long long last_gradient = -1;
  bool value_found = false;
  for (int64_t i = first; i < count; i += threads) {
    if (!value_found && !is_finite_value(values[i])) {
      atomic_min(places.first_value, static_cast<unsigned long long>(i));
      value_found = true;
    }
    if (!is_finite_value(gradients[i])) last_gradient = i;
  }
  if (last_gradient >= 0) atomic_max(places.last_gradient, last_gradient);
}

}  // namespace

void find_not_finite_cuda(Context& context, const FindNotFiniteArgs& args) {
  static_assert(sizeof(NotFinitePlaces) == 16 && offsetof(NotFinitePlaces, last_gradient) == 8);
  VENTRIS_CUDA_CHECK(cudaMemsetAsync(args.places, 0xFF, sizeof(NotFinitePlaces), stream_of(context)));
  auto* words = reinterpret_cast<char*>(args.places);
  launch({.name = "search",
          .grid = blocks_for(std::min(args.values.cols, kMaxBlocks * kNotFiniteThreads), kNotFiniteThreads),
          .block = kNotFiniteThreads},
         stream_of(context), search, args.values.as<float>(), args.gradients.as<float>(), args.values.cols,
         args.wanted,
         Places{reinterpret_cast<unsigned long long*>(words), reinterpret_cast<long long*>(words + 8)});
}

}  // namespace ventris
