// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/log_probability_sum.h"

#include "backend/ops/kernels.h"
#include "backend/ops/op_checks.h"

namespace ventris {

void log_probability_sum(Context& context, const LogProbabilitySumArgs& args) {
  const DType dtype = args.logits.dtype;
  check_tensor(args.logits, args.logits.rows, args.logits.cols, dtype, "logits");
  check_tensor(args.sum, args.logits.rows, args.sum.cols, master_dtype(dtype), "sum");
  VENTRIS_CHECK(args.vocab >= 1 && args.vocab <= args.logits.cols && args.vocab <= args.sum.cols,
                "a vocabulary of {} in {} columns of logits and {} of the sum", args.vocab, args.logits.cols,
                args.sum.cols);
  kernels::log_probability_sum(context, args);
}

}  // namespace ventris
