// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/weight_decay.h"

#include "backend/ops/kernels.h"
#include "backend/ops/op_checks.h"

namespace ventris {

void weight_decay(Context& context, const WeightDecayArgs& args) {
  check_tensor(args.values, 1, args.values.cols, master_dtype(args.values.dtype), "values");
  check_ranges(args.ranges, args.values.cols);
  VENTRIS_CHECK(args.decay >= 0.0, "the decay is {}, expected at least 0", args.decay);
  VENTRIS_CHECK(args.scalars != nullptr, "scalars are missing");
  kernels::weight_decay(context, args);
}

}  // namespace ventris
