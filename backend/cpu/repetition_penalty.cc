// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/repetition_penalty.h"
#include "backend/cpu/simd.h"
#include "backend/ops/op_checks.h"

namespace ventris {
namespace {

template <typename T>
void penalize(const RepetitionPenaltyArgs& args) {
  using M = Master<T>;
  const auto penalty = static_cast<M>(args.penalty);
  for (int64_t r = 0; r < args.logits.rows; ++r) {
    for (int32_t i = args.begin[r]; i < args.begin[r + 1]; ++i) {
      const int32_t token = args.tokens[i];
      VENTRIS_CHECK(token >= 0 && token < args.logits.cols, "tokens[{}] is {}, there are {} columns", i,
                    token, args.logits.cols);
      T& logit = args.logits.row<T>(r)[token];
      const M value = load(logit);
      store(logit, value > 0 ? value / penalty : value * penalty);
    }
  }
}

}  // namespace

void repetition_penalty_cpu(Context&, const RepetitionPenaltyArgs& args) {
  dispatch_dtype(args.logits.dtype, [&](auto tag) { penalize<decltype(tag)>(args); });
}

}  // namespace ventris
