// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/cross_entropy.h"

#include "backend/ops/kernels.h"
#include "backend/ops/op_checks.h"

namespace ventris {

void cross_entropy(Context& context, const CrossEntropyArgs& args) {
  const int64_t rows = args.logits.rows;
  const DType master = master_dtype(args.logits.dtype);
  check_tensor(args.logits, rows, args.logits.cols, args.logits.dtype, "logits");
  check_tensor(args.loss, 1, rows, master, "loss");
  check_tensor(args.nll, 1, rows, master, "nll");
  VENTRIS_CHECK(args.labels != nullptr, "labels are missing");
  VENTRIS_CHECK(args.tokens != nullptr && args.first_row >= 0, "tokens are missing, or first_row is {}",
                args.first_row);
  VENTRIS_CHECK(args.vocab >= 1 && args.vocab <= args.logits.cols, "a vocabulary of {} in {} columns",
                args.vocab, args.logits.cols);
  VENTRIS_CHECK(args.smoothing >= 0.0F && args.smoothing <= 1.0F, "smoothing is {}, expected 0 to 1",
                args.smoothing);
  VENTRIS_CHECK(!args.gradient || args.gradient_scale != nullptr, "the gradient needs gradient_scale");
  kernels::cross_entropy(context, args);
}

void loss_sum(Context& context, const LossSumArgs& args) {
  const int64_t rows = args.loss.cols;
  check_tensor(args.loss, 1, rows, master_dtype(args.loss.dtype), "loss");
  check_tensor(args.nll, 1, rows, args.loss.dtype, "nll");
  VENTRIS_CHECK(args.totals != nullptr, "totals are missing");
  kernels::loss_sum(context, args);
}

}  // namespace ventris
