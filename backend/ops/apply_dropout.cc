// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/apply_dropout.h"

#include "backend/ops/kernels.h"
#include "backend/ops/op_checks.h"

namespace ventris {

void apply_dropout(Context& context, const ApplyDropoutArgs& args) {
  check_tensor(args.x, args.x.rows, args.x.cols, args.x.dtype, "x");
  check_dropout(args.dropout);
  if (!args.dropout.active()) return;
  kernels::apply_dropout(context, args);
}

}  // namespace ventris
