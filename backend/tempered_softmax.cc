// SPDX-License-Identifier: Apache-2.0
#include "backend/tempered_softmax.h"

#include "backend/cpu_kernels.h"
#include "backend/kernels_cuda.h"
#include "backend/op_checks.h"

namespace ventris {

void tempered_softmax(Context& context, const TemperedSoftmaxArgs& args) {
  const int64_t rows = args.logits.rows;
  check_tensor(args.logits, rows, args.logits.cols, args.logits.dtype, "logits");
  VENTRIS_CHECK(args.vocab >= 1 && args.vocab <= args.logits.cols, "a vocabulary of {} in {} columns",
                args.vocab, args.logits.cols);
  check_tensor(args.probabilities, rows, args.vocab, master_dtype(args.logits.dtype), "probabilities");
  VENTRIS_CHECK(args.temperature > 0.0F, "the temperature is {}, expected more than 0", args.temperature);
  VENTRIS_CHECK(args.tokens != nullptr && args.first_row >= 0, "tokens are missing, or first_row is {}",
                args.first_row);
  if constexpr (kHasCuda) {
    if (context.device() == Device::kCuda) return tempered_softmax_cuda(context, args);
  }
  cpu_kernels().tempered_softmax(context, args);
}

}  // namespace ventris
