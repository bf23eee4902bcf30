// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/adam.h"

#include "backend/ops/kernels.h"
#include "backend/ops/op_checks.h"

namespace ventris {

void adam(Context& context, const AdamArgs& args) {
  const int64_t n = args.value.cols;
  const DType dtype = args.value.dtype;
  check_tensor(args.value, 1, n, master_dtype(dtype), "value");
  check_tensor(args.gradient, 1, n, dtype, "gradient");
  check_tensor(args.m, 1, n, dtype, "m");
  check_tensor(args.v, 1, n, dtype, "v");
  check_optional(args.compute, 1, n, DType::kBF16, "compute");
  VENTRIS_CHECK(args.beta1 >= 0.0F && args.beta1 < 1.0F && args.beta2 >= 0.0F && args.beta2 < 1.0F,
                "beta1 is {}, beta2 is {}, expected at least 0 and below 1", args.beta1, args.beta2);
  VENTRIS_CHECK(args.scalars != nullptr, "scalars are missing");
  kernels::adam(context, args);
}

}  // namespace ventris
