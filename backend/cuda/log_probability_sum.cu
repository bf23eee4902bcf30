// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "backend/cuda/elements.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/softmax_row.cuh"
#include "backend/ops/log_probability_sum.h"

namespace ventris {
namespace {

using namespace cuda;

/// One block: one row; every thread writes each kRowThreads-th of its tokens. Grid: rows; block: kRowThreads.
template <typename T, bool kVectors>
__global__ void __launch_bounds__(kRowThreads)
    add_row(Rows<const T> logits, int64_t vocab, bool first, Rows<float> sums) {
  __shared__ double room[kRowThreads / kWarp];
  const int64_t r = blockIdx.x;
  const T* row = logits.row(r);
  const RowSums found = row_sums<kVectors>(row, vocab, room);
  const double normal = static_cast<double>(found.max) + log(found.exp);
  float* sum = sums.row(r);
  for (int64_t w = threadIdx.x; w < vocab; w += kRowThreads) {
    const float value = static_cast<float>(static_cast<double>(load(row[w])) - normal);
    const float before = first ? -INFINITY : sum[w];
    const float larger = value > before ? value : before;
    const float smaller = value > before ? before : value;
    sum[w] = smaller == -INFINITY ? larger : larger + log1pf(expf(smaller - larger));
  }
}

}  // namespace

void log_probability_sum_cuda(Context& context, const LogProbabilitySumArgs& args) {
  dispatch_device_dtype(args.logits.dtype, "log_probability_sum", [&](auto tag) {
    using T = decltype(tag);
    dispatch_flag(vectors_fit(args.logits), [&](auto vectors) {
      launch({.name = "add_row", .grid = static_cast<unsigned>(args.logits.rows), .block = kRowThreads},
             stream_of(context), add_row<T, decltype(vectors)::value>, rows_of<T>(args.logits), args.vocab,
             args.first, rows_of<float>(args.sum));
    });
  });
}

}  // namespace ventris
