// SPDX-License-Identifier: Apache-2.0
#include "backend/needed_gemm_cpu.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "backend/block_sums_cpu.h"
#include "backend/op_checks.h"
#include "backend/packed_layout_cpu.h"
#include "backend/panel_tasks_cpu.h"
#include "backend/simd_cpu.h"

// A row of c and a panel are multiplied if one of their elements is needed. Blocks of such rows take as long
// as blocks of rows that lie together: every row of the first factor is read along its depth.
namespace ventris {
namespace {

constexpr int64_t kMostRows = 192;  // of a task
constexpr int64_t kMapRows = 32;    // rows of `needed` that are read at a time

/// The rows of a task whose product with a panel is needed.
template <typename C>
class NeededRows {
 public:
  NeededRows(const PackedGemmArgs& args, int64_t panel)
      : args_(args),
        column_(panel * kPackedPanel),
        columns_(std::min(kPackedPanel, args.c.cols - column_)),
        b_(static_cast<const float*>(args.b.data) + panel * packed_panel_size<float>(args.b.rows)) {}

  void add(int64_t row) { rows_[count_++] = row; }

  void multiply() {
    for (int64_t first = 0; first < count_; first += kBlockRows) {
      const auto count = static_cast<int>(std::min<int64_t>(kBlockRows, count_ - first));
      [&]<int... kLess>(std::integer_sequence<int, kLess...>) {
        static_cast<void>(((count == kLess + 1 && (block<kLess + 1>(rows_ + first), true)) || ...));
      }
      (std::make_integer_sequence<int, kBlockRows>());
    }
  }

 private:
  template <int kCount>
  void block(const int64_t* rows) const {
    const float* a[kCount];
    for (int i = 0; i < kCount; ++i) a[i] = args_.a.row<float>(rows[i]);
    float sums[kCount * kPackedPanel];
    Sum sum[kCount][kPanelVectors];
    each_sum(sum, [](int, int, Sum& value) { value = Sum{}; });
    if (args_.accumulate) {
      for (int i = 0; i < kCount; ++i) {
        const C* const c = args_.c.row<C>(rows[i]) + column_;
        for (int64_t j = 0; j < kPackedPanel; ++j)
          sums[i * kPackedPanel + j] = j < columns_ ? load(c[j]) : 0.0F;
      }
      load_sums(sums, kPackedPanel, sum);
    }
    const float* b = b_;
#pragma GCC unroll 4
    for (int64_t k = 0; k < args_.b.rows; ++k, b += kPackedPanel) {
      Sum row[kPanelVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kPanelVectors; ++v) row[v] = load_vector(b + v * kLanes<float>);
#pragma GCC unroll 8
      for (int i = 0; i < kCount; ++i) {
        const Sum factor = in_all_lanes(a[i][k]);
#pragma GCC unroll 4
        for (int v = 0; v < kPanelVectors; ++v) sum[i][v] = fused(factor, row[v], sum[i][v]);
      }
    }
    if constexpr (std::is_same_v<C, float>) {
      if (columns_ == kPackedPanel) {
        return each_sum(sum, [&](int i, int v, const Sum& value) {
          store_vector(args_.c.row<float>(rows[i]) + column_ + v * kLanes<float>, value);
        });
      }
    }
    store_sums(sum, sums, kPackedPanel);
    for (int i = 0; i < kCount; ++i) {
      C* const c = args_.c.row<C>(rows[i]) + column_;
      for (int64_t j = 0; j < columns_; ++j) store(c[j], sums[i * kPackedPanel + j]);
    }
  }

  const PackedGemmArgs& args_;
  int64_t column_;
  int64_t columns_;
  const float* b_;
  int64_t rows_[kMostRows];
  int64_t count_ = 0;
};

/// map[row, panel] = whether an element of them is positive.
template <typename T>
void find_needed(Context& context, const ConstTensor& needed, int64_t panels, uint8_t* map) {
  context.pool().for_ranges(needed.rows, kMapRows, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const T* from = needed.row<T>(row);
      for (int64_t panel = 0; panel < panels; ++panel, from += kPackedPanel) {
        const int64_t columns = std::min(kPackedPanel, needed.cols - panel * kPackedPanel);
        int32_t found = 0;
        if (columns == kPackedPanel) {
#pragma omp simd reduction(| : found)
          for (int64_t i = 0; i < kPackedPanel; ++i) found |= load(from[i]) > 0.0F ? 1 : 0;
        } else {
          for (int64_t i = 0; i < columns; ++i) found |= load(from[i]) > 0.0F ? 1 : 0;
        }
        map[row * panels + panel] = static_cast<uint8_t>(found);
      }
    }
  });
}

template <typename C>
void multiply_needed(Context& context, const PackedGemmArgs& args, int64_t panels, const uint8_t* map) {
  for_panels<kBlockRows>(context, args.a.rows, panels, kMostRows, false,
                         [&](int64_t row, int64_t rows, int64_t panel) {
                           NeededRows<C> needed(args, panel);
                           for (int64_t r = row; r < row + rows; ++r) {
                             if (map[r * panels + panel] != 0) needed.add(r);
                           }
                           needed.multiply();
                         });
}

}  // namespace

void needed_gemm_cpu(Context& context, const PackedGemmArgs& args, const ConstTensor& needed) {
  const int64_t panels = (args.c.cols + kPackedPanel - 1) / kPackedPanel;
  const int64_t elements = args.c.rows * panels;
  if (elements == 0) return;
  need_scratch(context, static_cast<size_t>(elements));
  ArenaScope scope(context.scratch());
  auto* const map = context.scratch().allocate_array<uint8_t>(elements);
  needed.dtype == DType::kF32 ? find_needed<float>(context, needed, panels, map)
                              : find_needed<BF16>(context, needed, panels, map);
  args.c.dtype == DType::kF32 ? multiply_needed<float>(context, args, panels, map)
                              : multiply_needed<BF16>(context, args, panels, map);
}

}  // namespace ventris
