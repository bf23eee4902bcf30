// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/not_finite.h"

#include "backend/ops/kernels.h"
#include "backend/ops/op_checks.h"

namespace ventris {

void find_not_finite(Context& context, const FindNotFiniteArgs& args) {
  const DType dtype = args.values.dtype;
  check_tensor(args.values, 1, args.values.cols, master_dtype(dtype), "values");
  check_tensor(args.gradients, 1, args.values.cols, dtype, "gradients");
  VENTRIS_CHECK(args.wanted != nullptr && args.places != nullptr, "wanted or places are missing");
  kernels::find_not_finite(context, args);
}

}  // namespace ventris
