// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/moving_average.h"

#include "backend/ops/kernels.h"
#include "backend/ops/op_checks.h"

namespace ventris {

void moving_average(Context& context, const MovingAverageArgs& args) {
  const DType dtype = args.value.dtype;
  check_tensor(args.value, 1, args.value.cols, master_dtype(dtype), "value");
  check_tensor(args.average, 1, args.value.cols, dtype, "average");
  VENTRIS_CHECK(args.decay >= 0.0 && args.decay < 1.0, "the decay is {}, expected at least 0 and below 1",
                args.decay);
  VENTRIS_CHECK(args.outcome != nullptr, "outcome is missing");
  kernels::moving_average(context, args);
}

void exchange(Context& context, const ExchangeArgs& args) {
  const DType dtype = args.a.dtype;
  check_tensor(args.a, 1, args.a.cols, master_dtype(dtype), "a");
  check_tensor(args.b, 1, args.a.cols, dtype, "b");
  kernels::exchange(context, args);
}

}  // namespace ventris
