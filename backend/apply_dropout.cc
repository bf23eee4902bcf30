// SPDX-License-Identifier: Apache-2.0
#include "backend/apply_dropout.h"

#include "backend/cpu_kernels.h"
#include "backend/kernels_cuda.h"
#include "backend/op_checks.h"

namespace ventris {

void apply_dropout(Context& context, const ApplyDropoutArgs& args) {
  check_tensor(args.x, args.x.rows, args.x.cols, args.x.dtype, "x");
  check_dropout(args.dropout);
  if (!args.dropout.active()) return;
  if constexpr (kHasCuda) {
    if (context.device() == Device::kCuda) return apply_dropout_cuda(context, args);
  }
  cpu_kernels().apply_dropout(context, args);
}

}  // namespace ventris
