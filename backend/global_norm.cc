#include "backend/global_norm.h"

#include "backend/cpu_kernels.h"
#include "backend/kernels_cuda.h"
#include "backend/op_checks.h"

namespace ventris {

void sum_of_squares(Context& context, const SumOfSquaresArgs& args) {
  check_tensor(args.x, 1, args.x.cols, master_dtype(args.x.dtype), "x");
  VENTRIS_CHECK(args.result != nullptr, "result is missing");
  if constexpr (kHasCuda) {
    if (context.device() == Device::kCuda) return sum_of_squares_cuda(context, args);
  }
  cpu_kernels().sum_of_squares(context, args);
}

}  // namespace ventris
