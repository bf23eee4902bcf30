#include "backend/global_norm.h"

#include "backend/global_norm_cpu.h"
#include "backend/global_norm_cuda.h"
#include "backend/op_checks.h"

namespace ventris {

void sum_of_squares(Context& context, const SumOfSquaresArgs& args) {
  check_tensor(args.x, 1, args.x.cols, master_dtype(args.x.dtype), "x");
  VENTRIS_CHECK(args.result != nullptr, "result is missing");
  if constexpr (kHasCuda) {
    if (context.device() == Device::kCuda) return sum_of_squares_cuda(context, args);
  }
  sum_of_squares_cpu(context, args);
}

}  // namespace ventris
