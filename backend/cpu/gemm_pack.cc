// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <type_traits>

#include "backend/cpu/gemm.h"
#include "backend/cpu/gemm_panels.h"
#include "backend/cpu/simd.h"
#include "backend/cpu/transpose.h"

namespace ventris {
namespace {

/// The columns of a panel that are packed: [begin, end).
struct PanelColumns {
  int64_t begin;
  int64_t end;

  PanelColumns(const PackArgs& args, int64_t panel)
      : begin(std::max(args.first_column, panel * kPackedPanel)),
        end(std::min(args.first_column + (args.transpose ? args.source.rows : args.source.cols),
                     (panel + 1) * kPackedPanel)) {}
};

// Row by row, so that reads are contiguous. Rows and panels are far apart: hardware does not foresee what
// comes next.
template <typename T, typename From>
void pack_rows(const PackArgs& args, int64_t first_panel, int64_t end_panel) {
  for (int64_t k = 0; k < args.to.rows; ++k) {
    const From* from = args.source.row<From>(k) - args.first_column;
    for (int64_t panel = first_panel; panel < end_panel; ++panel) {
      const PanelColumns columns(args, panel);
      T* to = packed_at<T>(args.to, panel, k);
      if (columns.end - columns.begin == kPackedPanel) {
#pragma omp simd
        for (int64_t i = 0; i < kPackedPanel; ++i)
          store(to[i * kPackedStep<T>], load(from[columns.begin + i]));
        __builtin_prefetch(from + kFetchedRows * args.source.stride + columns.begin);
        __builtin_prefetch(to + kFetchedRows * kPackedPanel * kPackedStep<T>, 1);
        continue;
      }
      for (int64_t column = columns.begin; column < columns.end; ++column) {
        store(to[(column - panel * kPackedPanel) * kPackedStep<T>], load(from[column]));
      }
    }
  }
}

template <typename T, typename From>
void pack_transposed(const PackArgs& args, int64_t panel) {
  const PanelColumns columns(args, panel);
  const int64_t from = columns.begin - args.first_column;
  if constexpr (std::is_same_v<T, float>) {
    transpose(args.source.row<From>(from), args.source.stride,
              packed_at<T>(args.to, panel, 0) + columns.begin - panel * kPackedPanel, kPackedPanel,
              args.to.rows, columns.end - columns.begin);
  } else {
    for (int64_t k = 0; k < args.to.rows; ++k) {
      T* to = packed_at<T>(args.to, panel, k);
      for (int64_t column = columns.begin; column < columns.end; ++column) {
        store(to[(column - panel * kPackedPanel) * kPackedStep<T>],
              load(args.source.row<From>(column - args.first_column)[k]));
      }
    }
  }
}

template <typename T, typename From>
void pack_panels(const PackArgs& args, int64_t first_panel, int64_t end_panel) {
  if (!args.transpose) return pack_rows<T, From>(args, first_panel, end_panel);
  for (int64_t panel = first_panel; panel < end_panel; ++panel) pack_transposed<T, From>(args, panel);
}

template <typename T>
void pack_all(Context& context, const PackArgs& args) {
  constexpr int64_t kTogether = 256 / kPackedPanel;  // panels of a task
  const int64_t cols = args.transpose ? args.source.rows : args.source.cols;
  if (cols == 0) return;
  const int64_t first = args.first_column / kPackedPanel;
  const int64_t count = (args.first_column + cols + kPackedPanel - 1) / kPackedPanel - first;
  context.pool().for_ranges(count, kTogether, [&](int64_t begin, int64_t end, int) {
    args.source.dtype == DType::kBF16 ? pack_panels<T, BF16>(args, first + begin, first + end)
                                      : pack_panels<T, float>(args, first + begin, first + end);
  });
}

}  // namespace

size_t packed_bytes_cpu(int64_t rows, int64_t cols, Packing packing) {
  if (packing == Packing::kInt8) return int8_packed_bytes(rows, cols);
  const int64_t panels = (cols + kPackedPanel - 1) / kPackedPanel;
  const bool half = packing == Packing::kBF16;
  const int64_t size = half ? packed_panel_size<BF16>(rows) : packed_panel_size<float>(rows);
  return static_cast<size_t>(panels * size) * size_of(factor_dtype(packing));
}

void pack_cpu(Context& context, const PackArgs& args) {
  if (args.to.packing == Packing::kInt8) return int8_pack(context, args);
  args.to.packing == Packing::kBF16 ? pack_all<BF16>(context, args) : pack_all<float>(context, args);
}

template <typename T>
void copy_column(const PackedMatrix& packed, int64_t column, T* to) {
  const T* from = static_cast<const T*>(packed.data) +
                  column / kPackedPanel * packed_panel_size<T>(packed.rows) +
                  column % kPackedPanel * kPackedStep<T>;
  for (int64_t k = 0; k < packed.rows; ++k)
    to[k] = from[k / kPackedStep<T> * kPackedStep<T> * kPackedPanel + k % kPackedStep<T>];
}
template void copy_column<float>(const PackedMatrix&, int64_t, float*);
template void copy_column<BF16>(const PackedMatrix&, int64_t, BF16*);

}  // namespace ventris
