// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/repetition_penalty.h"

#include "backend/ops/kernels.h"
#include "backend/ops/op_checks.h"

namespace ventris {

void repetition_penalty(Context& context, const RepetitionPenaltyArgs& args) {
  check_tensor(args.logits, args.logits.rows, args.logits.cols, args.logits.dtype, "logits");
  VENTRIS_CHECK(args.tokens != nullptr && args.begin != nullptr, "tokens or begin are missing");
  VENTRIS_CHECK(args.penalty > 0.0F, "a penalty of {}", args.penalty);
  kernels::repetition_penalty(context, args);
}

}  // namespace ventris
