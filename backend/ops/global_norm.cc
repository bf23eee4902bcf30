// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/global_norm.h"

#include "backend/cpu/kernel_table.h"
#include "backend/cuda/kernels.h"
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
  if constexpr (kHasCuda) {
    if (context.device() == Device::kCuda) return squares_of_chunks_cuda(context, args);
  }
  cpu_kernels().squares_of_chunks(context, args);
}

void sum_of_chunks(Context& context, const SumOfChunksArgs& args) {
  VENTRIS_CHECK(args.result != nullptr, "result is missing");
  if constexpr (kHasCuda) {
    if (context.device() == Device::kCuda) return sum_of_chunks_cuda(context, args);
  }
  double total = 0.0;
  for (int64_t k = 0; k < args.count; ++k) total += args.partial[k];
  args.result[0] = total;
}

}  // namespace ventris
