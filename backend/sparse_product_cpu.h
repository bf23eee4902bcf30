// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/block_sums_cpu.h"
#include "backend/gemm_work_cpu.h"
#include "backend/packed_layout_cpu.h"
#include "backend/simd_cpu.h"
#include "backend/sparse_cost_cpu.h"
#include "backend/sparse_lists_cpu.h"

/// What SparseTask (backend/sparse_task_cpu.h) multiplies.
namespace ventris {

/// c (+)= op(a) b, or the same of c^T; a is sparse.
struct SparseProduct {
  ConstTensor a;
  bool transpose_a;
  Tensor c;
  bool turned;  // c is the transposed product, in f32
  ConstTensor bias;
  bool relu;
  bool accumulate;

  int64_t rows() const { return turned ? c.cols : c.rows; }
  int64_t columns() const { return turned ? c.rows : c.cols; }
  int64_t depth() const { return transpose_a ? a.rows : a.cols; }
  /// Of op(a).
  template <typename T>
  float element(int64_t row, int64_t k) const {
    return load(transpose_a ? a.row<T>(k)[row] : a.row<T>(row)[k]);
  }
};

/// What a thread needs for the rows of a task.
struct SparseMemory {
  SparseLists lists;
  float* sums;  // of the rows of a task and a group, if they cannot be in c
};

/// That of a task of `rows` rows and `depth`.
inline SparseMemory take_sparse_memory(Pieces& pieces, int64_t rows, int64_t depth, int64_t steps) {
  auto* const values = pieces.take<float>(rows * depth + kLookedAt);
  auto* const offsets = pieces.take<uint16_t>(rows * depth + kLookedAt);
  auto* const begin = pieces.take<int32_t>((depth + steps - 1) / steps * rows + 1);
  return {SparseLists(steps, values, offsets, begin), pieces.take<float>(rows * kGroup)};
}

/// Some columns and some of the depth of a product.
struct SparsePart {
  int64_t column;
  int64_t columns;
  int64_t first;  // of the depth
  int64_t depth;
  const float* packed;  // b of the part, in panels
  int64_t list_steps;
  bool last;     // of the depth
  bool fetches;  // what the next list multiplies by, while a list is in use

  int64_t panels() const { return (columns + kPackedPanel - 1) / kPackedPanel; }
  int64_t panel_size() const { return packed_panel_size<float>(depth); }
  int64_t lists() const { return (depth + list_steps - 1) / list_steps; }
  int64_t steps(int64_t list) const { return std::min(list_steps, depth - list * list_steps); }

  /// Fetches steps [begin, end) of what the list after `list` multiplies by, in the same group of panels or
  /// the next.
  [[gnu::always_inline]] inline void fetch_after(const float* const* group, int64_t list, int64_t begin,
                                                 int64_t end) const {
    const int64_t to_next =
        list + 1 < lists() ? (list + 1) * list_steps * kPackedPanel : kGroupPanels * panel_size();
    for (int64_t step = begin; step < end; ++step) {
      for (int p = 0; p < kGroupPanels; ++p) {
        const float* const row = group[p] + to_next + step * kPackedPanel;
        for (int64_t i = 0; i < kPackedPanel; i += kOfLine<float>) __builtin_prefetch(row + i);
      }
    }
  }
};

}  // namespace ventris
