// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/global_norm.h"

#include "backend/ops/kernels.h"
#include "backend/ops/op_checks.h"

namespace ventris {

void sum_of_squares(Context& context, const SumOfSquaresArgs& args) {
  VENTRIS_CHECK(args.result != nullptr, "result is missing");
  const int64_t chunks = squares_chunks(args.x.cols);
  need_scratch(context, static_cast<size_t>(chunks) * sizeof(double));
  ArenaScope scope(context.scratch());
  double* partial = context.scratch().allocate_array<double>(chunks);
  squares_of_chunks(context, {.x = args.x, .partial = partial});
  sum_of_chunks(context, {.partial = partial, .count = chunks, .result = args.result});
}

void squares_of_chunks(Context& context, const SquaresOfChunksArgs& args) {
  check_tensor(args.x, 1, args.x.cols, master_dtype(args.x.dtype), "x");
  VENTRIS_CHECK(args.partial != nullptr || args.x.cols == 0, "partial is missing");
  kernels::squares_of_chunks(context, args);
}

void sum_of_chunks(Context& context, const SumOfChunksArgs& args) {
  VENTRIS_CHECK(args.result != nullptr, "result is missing");
  kernels::sum_of_chunks(context, args);
}

}  // namespace ventris
