// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/cast.h"

#include "backend/cpu/kernel_table.h"
#include "backend/cuda/kernels.h"
#include "backend/ops/op_checks.h"

namespace ventris {

void cast(Context& context, const CastArgs& args) {
  check_tensor(args.source, args.destination.rows, args.destination.cols, args.source.dtype, "source");
  check_tensor(args.destination, args.source.rows, args.source.cols, args.destination.dtype, "destination");
  if constexpr (kHasCuda) {
    if (context.device() == Device::kCuda) return cast_cuda(context, args);
  }
  cpu_kernels().cast(context, args);
}

void fill_zero(Context& context, Tensor tensor) {
  check_tensor(tensor, tensor.rows, tensor.cols, tensor.dtype, "tensor");
  if constexpr (kHasCuda) {
    if (context.device() == Device::kCuda) return fill_zero_cuda(context, tensor);
  }
  cpu_kernels().fill_zero(context, tensor);
}

}  // namespace ventris
