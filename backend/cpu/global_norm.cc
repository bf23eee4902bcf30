// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "backend/ops/global_norm.h"
#include "backend/ops/op_checks.h"

namespace ventris {
namespace {

constexpr int kLanes = 32;  // running sums within a chunk

template <typename M>
double squares_of(const M* x, int64_t n) {
  double lanes[kLanes] = {};
  const int64_t whole = n / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
#pragma omp simd
    for (int l = 0; l < kLanes; ++l) {
      const double value = static_cast<double>(x[i + l]);
      lanes[l] = std::fma(value, value, lanes[l]);
    }
  }
  for (int64_t i = whole; i < n; ++i) {
    const double value = static_cast<double>(x[i]);
    lanes[i - whole] = std::fma(value, value, lanes[i - whole]);
  }
  double total = 0.0;
  for (const double lane : lanes) total += lane;
  return total;
}

template <typename M>
void sum(Context& context, const SquaresOfChunksArgs& args) {
  const M* x = args.x.as<M>();
  context.pool().for_ranges(args.x.cols, kSquaresChunk, [&](int64_t begin, int64_t end, int) {
    args.partial[begin / kSquaresChunk] = squares_of(x + begin, end - begin);
  });
}

}  // namespace

void squares_of_chunks_cpu(Context& context, const SquaresOfChunksArgs& args) {
  if (args.x.dtype == DType::kF64) {
    sum<double>(context, args);
  } else {
    sum<float>(context, args);
  }
}

void sum_of_chunks_cpu(Context& /*context*/, const SumOfChunksArgs& args) {
  double total = 0.0;
  for (int64_t k = 0; k < args.count; ++k) total += args.partial[k];
  args.result[0] = total;
}

}  // namespace ventris
