#include "backend/add.h"

#include "backend/cpu_kernels.h"
#include "backend/kernels_cuda.h"
#include "backend/op_checks.h"

namespace ventris {

void add(Context& context, const AddArgs& args) {
  const DType dtype = master_dtype(args.a.dtype);
  check_tensor(args.a, 1, args.sum.cols, dtype, "a");
  check_optional(args.b, 1, args.sum.cols, dtype, "b");
  check_tensor(args.sum, 1, args.sum.cols, dtype, "sum");
  if constexpr (kHasCuda) {
    if (context.device() == Device::kCuda) return add_cuda(context, args);
  }
  cpu_kernels().add(context, args);
}

}  // namespace ventris
