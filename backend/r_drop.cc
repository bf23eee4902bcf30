// SPDX-License-Identifier: Apache-2.0
#include "backend/r_drop.h"

#include "backend/cpu_kernels.h"
#include "backend/kernels_cuda.h"
#include "backend/op_checks.h"

namespace ventris {

void r_drop(Context& context, const RDropArgs& args) {
  check_cross_entropy(args.pass);
  const Tensor& first = args.pass.logits;
  check_tensor(args.second, first.rows, first.cols, first.dtype, "second");
  VENTRIS_CHECK(!args.pass.soft, "R-Drop has no soft targets");
  VENTRIS_CHECK(args.pass.gradient, "R-Drop is of training, which needs the gradient");
  VENTRIS_CHECK(args.alpha >= 0.0F, "alpha is {}, expected 0 or more", args.alpha);
  if constexpr (kHasCuda) {
    if (context.device() == Device::kCuda) return r_drop_cuda(context, args);
  }
  cpu_kernels().r_drop(context, args);
}

}  // namespace ventris
