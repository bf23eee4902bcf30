// SPDX-License-Identifier: Apache-2.0
#include "backend/sparse_packed_gemm_cpu.h"

#include <algorithm>
#include <vector>

#include "backend/density_cpu.h"
#include "backend/gemm_cache.h"
#include "backend/gemm_work_cpu.h"
#include "backend/panel_tasks_cpu.h"
#include "backend/sparse_cost_cpu.h"
#include "backend/sparse_task_cpu.h"
#include "backend/split.h"

namespace ventris {
namespace {

constexpr int64_t kMostRows = 192;  // of a task
constexpr int64_t kLeastRows = 4;   // of a task, if there are others

/// Multiply-adds of a product that take less time than waking another thread.
constexpr double kSmall = 1 << 18;

/// A look at some elements, before density(): most factors have no zeros.
bool has_zeros(const ConstTensor& a) {
  constexpr int64_t kLooks = 64;
  int64_t found = 0;
  const int64_t size = std::min(kLooks, a.cols);
  const float* const row = a.row<float>(a.rows / 2);
  for (int64_t k = 0; k < size; ++k) found += row[k * a.cols / size] == 0.0F ? 1 : 0;
  return found * 4 > size;
}

}  // namespace

bool sparse_packed_gemm_cpu(Context& context, const PackedGemmArgs& args) {
  if (!args.b.finite || args.c.dtype != DType::kF32 || args.a.cols == 0 || !has_zeros(args.a)) return false;
  const double share = density(args.a);
  const int64_t m = args.a.rows;
  const double multiplications = share * static_cast<double>(m * args.c.cols * args.b.rows);
  const int64_t threads = multiplications < kSmall ? 1 : context.pool().threads();
  const int64_t tasks = std::max((m + kMostRows - 1) / kMostRows, std::min(threads, m / kLeastRows));
  const Split rows{m, 1, std::max<int64_t>(tasks, 1)};
  if (!is_faster(share, args.c.cols, std::min(rows.count, threads), threads)) return false;
  const int64_t steps = list_steps(share);
  const int64_t task_rows = rows.whole_length(rows.count - 1);
  std::vector<SparseMemory> memory;
  const auto take = [&](char* base) {
    Pieces pieces(base);
    memory.clear();
    for (int64_t thread = 0; thread < threads; ++thread)
      memory.push_back(take_sparse_memory(pieces, task_rows, args.b.rows, steps));
    return static_cast<size_t>(pieces.used());
  };
  take(static_cast<char*>(context.gemm_cache().padding(take(nullptr))));
  const SparseProduct product{.a = args.a,
                              .transpose_a = false,
                              .c = args.c,
                              .turned = false,
                              .bias = args.bias,
                              .relu = args.relu,
                              .accumulate = args.accumulate};
  const SparsePart part{.column = 0,
                        .columns = args.c.cols,
                        .first = 0,
                        .depth = args.b.rows,
                        .packed = static_cast<const float*>(args.b.data),
                        .list_steps = steps,
                        .last = true,
                        .fetches = kFetchesAhead && static_cast<double>(task_rows) * share > 1.0};
  const auto run = [&](int64_t task, int thread) {
    SparseTask<float, float>(product, part, memory[static_cast<size_t>(thread)], rows.begin(task),
                             rows.length(task))
        .run();
  };
  if (threads == 1) {
    for (int64_t task = 0; task < rows.count; ++task) run(task, 0);
  } else {
    context.pool().for_each(rows.count, run);
  }
  return true;
}

}  // namespace ventris
