// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/cast.h"

#include "backend/ops/kernels.h"
#include "backend/ops/op_checks.h"

namespace ventris {

void cast(Context& context, const CastArgs& args) {
  check_tensor(args.source, args.destination.rows, args.destination.cols, args.source.dtype, "source");
  check_tensor(args.destination, args.source.rows, args.source.cols, args.destination.dtype, "destination");
  kernels::cast(context, args);
}

void fill_zero(Context& context, Tensor tensor) {
  check_tensor(tensor, tensor.rows, tensor.cols, tensor.dtype, "tensor");
  kernels::fill_zero(context, tensor);
}

}  // namespace ventris
