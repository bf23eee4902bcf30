#include "backend/cast.h"

#include "backend/cast_cpu.h"
#include "backend/op_checks.h"

namespace ventris {

void cast(Context& context, const CastArgs& args) {
  check_tensor(args.source, args.destination.rows, args.destination.cols, args.source.dtype, "source");
  check_tensor(args.destination, args.source.rows, args.source.cols, args.destination.dtype, "destination");
  check_cpu(context, "cast");
  cast_cpu(context, args);
}

void fill_zero(Context& context, Tensor tensor) {
  check_tensor(tensor, tensor.rows, tensor.cols, tensor.dtype, "tensor");
  check_cpu(context, "fill_zero");
  fill_zero_cpu(context, tensor);
}

}  // namespace ventris
