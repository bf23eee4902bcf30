// SPDX-License-Identifier: Apache-2.0
#include "backend/sparse_gemm_cpu.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "backend/density_cpu.h"
#include "backend/gemm_cache.h"
#include "backend/gemm_work_cpu.h"
#include "backend/is_finite_cpu.h"
#include "backend/pack_cpu.h"
#include "backend/packed_layout_cpu.h"
#include "backend/simd_cpu.h"
#include "backend/sparse_cost_cpu.h"
#include "backend/sparse_task_cpu.h"
#include "backend/split.h"
#include "backend/strip_gemm_cpu.h"

namespace ventris {
namespace {

/// Multiply-adds below which a product is too small to look for zeros.
constexpr int64_t kLeast = int64_t{1} << 21;

constexpr int64_t kRows = 192;  // of a task, at most
/// The part of the second factor that is packed at a time.
constexpr int64_t kDepth = 2048;
constexpr int64_t kColumns = 512;
/// The depth of a product in bf16, which does not hold a part of a sum, so that all of it is listed at a
/// time.
constexpr int64_t kDeepestBF16 = 4096;

/// A product and its second factor, op(b).
struct Factors {
  SparseProduct product;
  ConstTensor b;
  bool transpose_b;
};

/// The work memory of a product; only measures if `base` is null.
class Workspace {
 public:
  Workspace(char* base, const SparseProduct& product, int64_t task_rows, int64_t steps, int threads)
      : list_steps(steps),
        columns(std::min(product.columns(), kColumns)),
        depth(product.c.dtype == DType::kF32 ? std::min(product.depth(), kDepth) : product.depth()) {
    Pieces pieces(base);
    packed =
        pieces.take<float>((columns + kPackedPanel - 1) / kPackedPanel * packed_panel_size<float>(depth));
    for (int thread = 0; thread < threads; ++thread) {
      const SparseMemory of_thread = take_sparse_memory(pieces, task_rows, depth, list_steps);
      if (base != nullptr) memory.push_back(of_thread);
    }
    bytes = pieces.used();
  }

  int64_t list_steps;
  int64_t columns;  // of a part
  int64_t depth;
  float* packed = nullptr;  // op(b) of a part
  std::vector<SparseMemory> memory;
  int64_t bytes = 0;
};

/// T: of the sparse factor.
template <typename T>
class SparseGemm {
 public:
  SparseGemm(Context& context, const Factors& factors, const Split& rows, Workspace& work)
      : context_(context), factors_(factors), rows_(rows), work_(work) {}

  void run() const {
    const SparseProduct& product = factors_.product;
    for (int64_t column = 0; column < product.columns(); column += work_.columns) {
      for (int64_t first = 0; first == 0 || first < product.depth(); first += work_.depth) {
        const int64_t depth = std::min(work_.depth, product.depth() - first);
        const SparsePart part{.column = column,
                              .columns = std::min(work_.columns, product.columns() - column),
                              .first = first,
                              .depth = depth,
                              .packed = work_.packed,
                              .list_steps = work_.list_steps,
                              .last = first + depth == product.depth(),
                              .fetches = false};
        pack(part);
        product.c.dtype == DType::kF32 ? multiply<float>(part) : multiply<BF16>(part);
      }
    }
  }

 private:
  void pack(const SparsePart& part) const {
    if (part.columns % kPackedPanel != 0)
      std::fill_n(work_.packed + (part.panels() - 1) * part.panel_size(), part.panel_size(), 0.0F);
    const ConstTensor& b = factors_.b;
    const ConstTensor source = factors_.transpose_b
                                   ? b.row_range(part.column, part.columns).col_range(part.first, part.depth)
                                   : b.row_range(part.first, part.depth).col_range(part.column, part.columns);
    pack_cpu(context_, {.source = source,
                        .transpose = factors_.transpose_b,
                        .to = {work_.packed, part.depth, part.columns, Packing::kF32}});
  }

  template <typename C>
  void multiply(const SparsePart& part) const {
    context_.pool().for_each(rows_.count, [&](int64_t index, int thread) {
      SparseMemory& memory = work_.memory[static_cast<size_t>(thread)];
      SparseTask<T, C>(factors_.product, part, memory, rows_.begin(index), rows_.length(index)).run();
    });
  }

  Context& context_;
  const Factors& factors_;
  const Split& rows_;
  Workspace& work_;
};

}  // namespace

bool sparse_gemm_cpu(Context& context, const GemmArgs& args) {
  Factors factors{.product = {.a = args.a,
                              .transpose_a = args.transpose_a,
                              .c = args.c,
                              .turned = false,
                              .bias = args.bias,
                              .relu = args.relu,
                              .accumulate = args.accumulate},
                  .b = args.b,
                  .transpose_b = args.transpose_b};
  SparseProduct& product = factors.product;
  if (product.rows() * product.columns() * product.depth() < kLeast) return false;
  if (args.c.dtype != DType::kF32 && product.depth() > kDeepestBF16) return false;
  double share = density(args.a);
  if (!is_faster(share, product.columns())) {
    if (!is_for_strips(args)) return false;
    share = density(args.b);
    if (!is_faster(share, product.rows())) return false;
    std::swap(product.a, factors.b);
    product.transpose_a = true;
    factors.transpose_b = false;
    product.turned = true;
  }
  if (!is_finite_cpu(context, factors.b)) return false;
  const int threads = context.pool().threads();
  const int64_t m = product.rows();
  const Split rows{m, kLookedAt,
                   std::max((m + kRows - 1) / kRows, std::min<int64_t>(threads, m / kLookedAt))};
  int64_t task_rows = 0;
  for (int64_t i = 0; i < rows.count; ++i) task_rows = std::max(task_rows, rows.length(i));
  const int64_t steps = list_steps(share);
  const auto bytes = static_cast<size_t>(Workspace(nullptr, product, task_rows, steps, threads).bytes);
  Workspace work(static_cast<char*>(context.gemm_cache().padding(bytes)), product, task_rows, steps, threads);
  if (product.a.dtype == DType::kF32) {
    SparseGemm<float>(context, factors, rows, work).run();
  } else {
    SparseGemm<BF16>(context, factors, rows, work).run();
  }
  return true;
}

}  // namespace ventris
