#include "backend/bias_relu.h"

#include "backend/bias_relu_cpu.h"

namespace ventris {
namespace {

void check_bias(const ConstTensor& d_y, const ConstTensor& d_bias) {
  VENTRIS_CHECK(d_bias.rows == 1 && d_bias.cols == d_y.cols && d_bias.dtype == master_dtype(d_y.dtype),
                "d_bias {} x {} {} for d_y {} x {} {}", d_bias.rows, d_bias.cols, name_of(d_bias.dtype), d_y.rows, d_y.cols,
                name_of(d_y.dtype));
}

}  // namespace

void bias_relu_backward(Context& context, const BiasReluBackwardArgs& args) {
  VENTRIS_CHECK(args.d_y.rows == args.y.rows && args.d_y.cols == args.y.cols && args.d_y.dtype == args.y.dtype,
                "d_y {} x {} {} for y {} x {} {}", args.d_y.rows, args.d_y.cols, name_of(args.d_y.dtype), args.y.rows,
                args.y.cols, name_of(args.y.dtype));
  check_bias(args.d_y, args.d_bias);
  bias_relu_backward_cpu(context, args);
}

void bias_backward(Context& context, const BiasBackwardArgs& args) {
  check_bias(args.d_y, args.d_bias);
  bias_backward_cpu(context, args);
}

}  // namespace ventris
