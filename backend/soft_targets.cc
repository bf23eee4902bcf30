// SPDX-License-Identifier: Apache-2.0
#include "backend/soft_targets.h"

#include "backend/cpu_kernels.h"
#include "backend/kernels_cuda.h"
#include "backend/op_checks.h"

namespace ventris {

void soft_targets(Context& context, const SoftTargetsArgs& args) {
  const int64_t rows = args.scores.rows;
  const DType dtype = args.scores.dtype;
  check_tensor(args.scores, rows, args.scores.cols, args.are_logits ? dtype : master_dtype(dtype), "scores");
  check_tensor(args.probabilities, rows, args.k, master_dtype(dtype), "probabilities");
  VENTRIS_CHECK(args.vocab >= 1 && args.vocab <= args.scores.cols, "a vocabulary of {} in {} columns",
                args.vocab, args.scores.cols);
  VENTRIS_CHECK(args.k >= 1 && args.k <= args.vocab && args.k <= kMostSoftTargets,
                "{} of {} tokens wanted, at most {}", args.k, args.vocab, kMostSoftTargets);
  VENTRIS_CHECK(args.temperature > 0.0F, "the temperature is {}, expected more than 0", args.temperature);
  VENTRIS_CHECK(args.indices != nullptr, "indices are missing");
  VENTRIS_CHECK(args.tokens != nullptr && args.first_row >= 0, "tokens are missing, or first_row is {}",
                args.first_row);
  if constexpr (kHasCuda) {
    if (context.device() == Device::kCuda) return soft_targets_cuda(context, args);
  }
  cpu_kernels().soft_targets(context, args);
}

}  // namespace ventris
