// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/elements.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/ops/repetition_penalty.h"

namespace ventris {
namespace {

using namespace cuda;

constexpr int kRepetitionPenaltyThreads = 64;

/// One block: one row; thread t changes every kRepetitionPenaltyThreads-th token of its list. Grid: rows;
/// block: kRepetitionPenaltyThreads.
template <typename T>
__global__ void penalize_row(Rows<T> logits, const int32_t* tokens, const int32_t* begin, float penalty) {
  const int64_t r = blockIdx.x;
  for (int32_t i = begin[r] + static_cast<int32_t>(threadIdx.x); i < begin[r + 1];
       i += kRepetitionPenaltyThreads) {
    T& logit = logits.row(r)[tokens[i]];
    const float value = load(logit);
    store(logit, value > 0.0F ? value / penalty : value * penalty);
  }
}

}  // namespace

void repetition_penalty_cuda(Context& context, const RepetitionPenaltyArgs& args) {
  dispatch_device_dtype(args.logits.dtype, "repetition_penalty", [&](auto tag) {
    using T = decltype(tag);
    launch({.name = "penalize_row",
            .grid = static_cast<unsigned>(args.logits.rows),
            .block = kRepetitionPenaltyThreads},
           stream_of(context), penalize_row<T>, rows_of<T>(args.logits), args.tokens, args.begin,
           args.penalty);
  });
}

}  // namespace ventris
