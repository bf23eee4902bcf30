#include "backend/bias_relu.h"

#include "backend/cpu_kernels.h"
#include "backend/kernels_cuda.h"
#include "backend/op_checks.h"

namespace ventris {

void bias_relu_backward(Context& context, const BiasReluBackwardArgs& args) {
  const DType dtype = args.d_y.dtype;
  check_tensor(args.d_y, args.d_y.rows, args.d_y.cols, dtype, "d_y");
  check_tensor(args.y, args.d_y.rows, args.d_y.cols, dtype, "y");
  check_tensor(args.d_bias, 1, args.d_y.cols, master_dtype(dtype), "d_bias");
  if constexpr (kHasCuda) {
    if (context.device() == Device::kCuda) return bias_relu_backward_cuda(context, args);
  }
  cpu_kernels().bias_relu_backward(context, args);
}

void bias_backward(Context& context, const BiasBackwardArgs& args) {
  check_tensor(args.d_y, args.d_y.rows, args.d_y.cols, args.d_y.dtype, "d_y");
  check_tensor(args.d_bias, 1, args.d_y.cols, master_dtype(args.d_y.dtype), "d_bias");
  if constexpr (kHasCuda) {
    if (context.device() == Device::kCuda) return bias_backward_cuda(context, args);
  }
  cpu_kernels().bias_backward(context, args);
}

}  // namespace ventris
