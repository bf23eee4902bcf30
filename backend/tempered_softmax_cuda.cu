// SPDX-License-Identifier: Apache-2.0
#include "backend/tempered_softmax.h"

#include <cmath>

#include "backend/cuda/elements.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/softmax_row.cuh"
#include "backend/kernels_cuda.h"

namespace ventris {
namespace {

using namespace cuda;

template <typename T>
struct TemperedSoftmaxProblem {
  Rows<const T> logits;
  float inverse;  // 1 / temperature
  float factor;
  bool accumulate;
  int64_t first_row;
  const int32_t* tokens;
  int64_t vocab;
  Rows<float> probabilities;
};

/// One block: one row, which it reads twice. Grid: rows; block: kRowThreads.
template <typename T, bool kVectors>
__global__ void __launch_bounds__(kRowThreads) tempered_softmax_row(TemperedSoftmaxProblem<T> f) {
  __shared__ double room[kRowThreads / kWarp];
  const int64_t r = blockIdx.x;
  if (f.first_row + r >= *f.tokens) return;
  const T* row = f.logits.row(r);
  float* probabilities = f.probabilities.row(r);
  const RowSums sums = row_sums<kVectors>(row, f.vocab, room, f.inverse);
  const float scale = static_cast<float>(static_cast<double>(f.factor) / sums.exp);
  for (int64_t begin = int64_t{threadIdx.x} * kPack; begin < f.vocab; begin += kRowPack) {
    float x[kPack];
    load_pack<kVectors>(row, begin, f.vocab, x);
    float p[kPack] = {};
    if (f.accumulate) load_pack<kVectors>(probabilities, begin, f.vocab, p);
    for (int i = 0; i < kPack; ++i) p[i] = fmaf(expf(fmaf(x[i], f.inverse, -sums.max)), scale, p[i]);
    store_pack<kVectors>(probabilities, begin, f.vocab, p);
  }
}

}  // namespace

void tempered_softmax_cuda(Context& context, const TemperedSoftmaxArgs& args) {
  dispatch_device_dtype(args.logits.dtype, "tempered_softmax", [&](auto tag) {
    using T = decltype(tag);
    const TemperedSoftmaxProblem<T> f{.logits = rows_of<T>(args.logits),
                                      .inverse = 1.0F / args.temperature,
                                      .factor = args.factor,
                                      .accumulate = args.accumulate,
                                      .first_row = args.first_row,
                                      .tokens = args.tokens,
                                      .vocab = args.vocab,
                                      .probabilities = rows_of<float>(args.probabilities)};
    dispatch_flag(all_vectors_fit(args.logits, args.probabilities), [&](auto vectors) {
      launch({.name = "tempered_softmax_row",
              .grid = static_cast<unsigned>(args.logits.rows),
              .block = kRowThreads},
             stream_of(context), tempered_softmax_row<T, decltype(vectors)::value>, f);
    });
  });
}

}  // namespace ventris
