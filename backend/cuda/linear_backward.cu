// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/linear_backward.h"

#include "backend/cuda/column_sums.cuh"
#include "backend/cuda/gemm.h"
#include "backend/device/context_cuda.h"
#include "backend/ops/op_checks.h"

namespace ventris {
namespace {

using namespace cuda;

Tensor vector_of(float* data, int64_t cols) {
  return {data, 1, cols, cols, DType::kF32};
}

/// Whether the product is to sum the columns. Candidates and their rival, when they are timed, write the sums
/// to scratch.
bool product_sums(Context& context, const GemmArgs& product, const ColumnGroups& columns) {
  const int64_t cols = product.b.cols;
  need_scratch(context, static_cast<size_t>(cols) * sizeof(float));
  const ArenaScope scope(context.scratch());
  GemmArgs with_sums = product;
  with_sums.column_sums = vector_of(context.scratch().allocate_array<float>(cols), cols);
  return gemm_sums_columns_cuda(context, with_sums, [&](const GemmArgs& turn) {
    GemmArgs alone = turn;
    alone.column_sums = {};
    bias_backward(context, {.d_y = turn.b, .d_bias = turn.column_sums, .columns = columns});
    gemm_cuda(context, alone);
  });
}

}  // namespace

bool linear_backward_cuda(Context& context, const LinearBackwardArgs& args, const GemmArgs& product) {
  const int64_t cols = args.d_y.cols;
  if (args.d_y.size() == 0 || args.x.size() == 0 || !product_sums(context, product, args.columns))
    return false;
  PendingColumnSums& pending = *context.cuda().pending_sums;
  float* const sums = pending.room(cols);
  if (sums == nullptr) return false;
  GemmArgs with_sums = product;
  with_sums.column_sums = vector_of(sums, cols);
  gemm_cuda(context, with_sums);
  const ColumnGroups all = {.first = 0, .count = cols, .period = cols};
  const ColumnGroups& columns = args.columns.count == 0 ? all : args.columns;
  for (int64_t begin = columns.first; begin < cols; begin += columns.period) {
    pending.add({.partial = sums + begin,
                 .to = args.d_bias.col_range(begin, columns.count).as<float>(),
                 .count = 1,
                 .stride = static_cast<int>(cols),
                 .cols = static_cast<int>(columns.count)});
  }
  if (!args.sums_later) pending.complete();
  return true;
}

}  // namespace ventris
