// SPDX-License-Identifier: Apache-2.0
#include "backend/clip_values.h"

#include "backend/cpu_kernels.h"
#include "backend/kernels_cuda.h"
#include "backend/op_checks.h"

namespace ventris {

void clip_values(Context& context, const ClipValuesArgs& args) {
  check_tensor(args.x, 1, args.x.cols, master_dtype(args.x.dtype), "x");
  VENTRIS_CHECK(args.limit > 0.0, "the limit is {}, expected above 0", args.limit);
  if constexpr (kHasCuda) {
    if (context.device() == Device::kCuda) return clip_values_cuda(context, args);
  }
  cpu_kernels().clip_values(context, args);
}

}  // namespace ventris
