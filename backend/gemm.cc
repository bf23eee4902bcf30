#include "backend/gemm.h"

#include "backend/gemm_cpu.h"

namespace ventris {

void gemm(Context& context, const GemmArgs& args) {
  const int64_t m = args.transpose_a ? args.a.cols : args.a.rows;
  const int64_t k = args.transpose_a ? args.a.rows : args.a.cols;
  const int64_t b_k = args.transpose_b ? args.b.cols : args.b.rows;
  const int64_t n = args.transpose_b ? args.b.rows : args.b.cols;
  const DType dtype = args.a.dtype;
  VENTRIS_CHECK(k == b_k && args.c.rows == m && args.c.cols == n,
                "a {} x {}{}, b {} x {}{}, c {} x {}: the shapes do not match", args.a.rows, args.a.cols,
                args.transpose_a ? " transposed" : "", args.b.rows, args.b.cols, args.transpose_b ? " transposed" : "",
                args.c.rows, args.c.cols);
  VENTRIS_CHECK(args.b.dtype == dtype && (args.c.dtype == dtype || args.c.dtype == master_dtype(dtype)),
                "a {}, b {}, c {}: the dtypes do not match", name_of(dtype), name_of(args.b.dtype), name_of(args.c.dtype));
  VENTRIS_CHECK(!args.bias || (args.bias.rows == 1 && args.bias.cols == n && args.bias.dtype == master_dtype(dtype)),
                "bias {} x {} {} for c {} x {} {}", args.bias.rows, args.bias.cols, name_of(args.bias.dtype), m, n,
                name_of(args.c.dtype));
  VENTRIS_CHECK(!args.accumulate || (!args.bias && !args.relu), "bias and ReLU do not go with accumulation");
  if (m == 0 || n == 0) return;
  gemm_cpu(context, args);
}

}  // namespace ventris
