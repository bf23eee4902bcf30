// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/not_finite.h"

#include "backend/cpu/kernel_table.h"
#include "backend/cuda/kernels.h"
#include "backend/ops/op_checks.h"

namespace ventris {

void find_not_finite(Context& context, const FindNotFiniteArgs& args) {
  const DType dtype = args.values.dtype;
  check_tensor(args.values, 1, args.values.cols, master_dtype(dtype), "values");
  check_tensor(args.gradients, 1, args.values.cols, dtype, "gradients");
  VENTRIS_CHECK(args.wanted != nullptr && args.places != nullptr, "wanted or places are missing");
  if constexpr (kHasCuda) {
    if (context.device() == Device::kCuda) return find_not_finite_cuda(context, args);
  }
  cpu_kernels().find_not_finite(args);
}

}  // namespace ventris
