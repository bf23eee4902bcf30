// SPDX-License-Identifier: Apache-2.0
#include "backend/soft_targets.h"

#include <cmath>

#include "backend/cuda/best_tokens.cuh"
#include "backend/cuda/elements.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/kernels_cuda.h"

namespace ventris {
namespace {

using namespace cuda;

static_assert(kMostSoftTargets <= kRowThreads);

template <typename T>
struct SoftTargetsProblem {
  Rows<const T> scores;
  bool are_logits;
  float exponent;  // log2(e) / temperature
  int64_t first_row;
  const int32_t* tokens;
  int64_t vocab;
  int k;
  int32_t* indices;
  Rows<float> probabilities;
};

/// One block: one row; thread i writes its i-th index and probability. Grid: rows; block: kRowThreads.
template <typename T>
__global__ void __launch_bounds__(kRowThreads) soft_targets_row(SoftTargetsProblem<T> f) {
  __shared__ float room[kRowThreads / kWarp];
  __shared__ Token bests[kRowThreads / kWarp];
  const int64_t r = blockIdx.x;
  const int thread = static_cast<int>(threadIdx.x);
  if (f.first_row + r >= *f.tokens) return;
  float largest = 0.0F;
  Token mine = {0.0F, 0};
  // Infinity less infinity and infinity by infinity are NaN again.
  for_best_tokens(
      f.scores.row(r), f.vocab, f.k, INFINITY, bests, [](int32_t) { return true; },
      [&](int i, const Token& best) {
        if (i == 0) largest = best.value;
        if (i == thread) mine = best;
      });
  const bool writes = thread < f.k;
  float value = writes ? mine.value : 0.0F;
  if (writes && f.are_logits) value = fast_exp2((mine.value - largest) * f.exponent);
  const float sum = block_sum(value, room);
  if (!writes) return;
  f.indices[r * f.k + thread] = mine.index;
  f.probabilities.row(r)[thread] = value / sum;
}

}  // namespace

void soft_targets_cuda(Context& context, const SoftTargetsArgs& args) {
  dispatch_device_dtype(args.scores.dtype, "soft_targets", [&](auto tag) {
    using T = decltype(tag);
    const SoftTargetsProblem<T> f{.scores = rows_of<T>(args.scores),
                                  .are_logits = args.are_logits,
                                  .exponent = kLog2E / args.temperature,
                                  .first_row = args.first_row,
                                  .tokens = args.tokens,
                                  .vocab = args.vocab,
                                  .k = args.k,
                                  .indices = args.indices,
                                  .probabilities = rows_of<float>(args.probabilities)};
    launch(
        {.name = "soft_targets_row", .grid = static_cast<unsigned>(args.scores.rows), .block = kRowThreads},
        stream_of(context), soft_targets_row<T>, f);
  });
}

}  // namespace ventris
