// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "backend/block_sums_cpu.h"
#include "backend/nonzero_cpu.h"
#include "backend/packed_layout_cpu.h"
#include "backend/simd_cpu.h"
#include "backend/tensor.h"
#include "backend/transpose_cpu.h"

/// The elements of a matrix that are not zero, by rows, for products with a packed matrix.
namespace ventris {

/// Greatest depth of a list: rows of a panel whose offset in bytes has 16 bits.
inline constexpr int64_t kMostListSteps = 256;
inline constexpr int64_t kPanelRowBytes = kPackedPanel * static_cast<int64_t>(sizeof(float));
static_assert((kMostListSteps - 1) * kPanelRowBytes <= UINT16_MAX);

struct SparseList {
  const float* values;
  const uint16_t* offsets;  // of rows of a panel, in bytes, from the first one of the list
  int64_t count;
};

/// Lists of some rows of op(a), by depth, then by row, in memory of the caller.
class SparseLists {
 public:
  /// `steps` is the depth of a list. `values` and `offsets` have room for rows * depth + kLookedAt elements,
  /// `begin` for lists * rows + 1.
  SparseLists(int64_t steps, float* values, uint16_t* offsets, int32_t* begin)
      : steps_(steps), values_(values), offsets_(offsets), begin_(begin) {}

  /// Those of a, which is [rows, depth], or of its transpose, if a is [depth, rows].
  template <typename T>
  void fill(const ConstTensor& a, bool transposed) {
    rows_ = transposed ? a.cols : a.rows;
    const int64_t depth = transposed ? a.rows : a.cols;
    used_ = 0;
    int64_t list = 0;
    for (int64_t first = 0; first < depth; first += steps_, ++list) {
      const int64_t steps = std::min(steps_, depth - first);
      transposed ? add_columns<T>(list, a.row_range(first, steps))
                 : add_rows<T>(list, a.col_range(first, steps));
    }
    begin_[list * rows_] = used_;
  }

  SparseList of(int64_t list, int64_t row) const {
    const int32_t* const begin = begin_ + list * rows_ + row;
    return {values_ + begin[0], offsets_ + begin[0], begin[1] - begin[0]};
  }

 private:
  template <typename T>
  void add_rows(int64_t list, const ConstTensor& a) {
    for (int64_t r = 0; r < rows_; ++r) {
      const T* const later = a.row<T>(r) + kFetchedRows * a.stride;
      for (int64_t k = 0; k < a.cols; k += kOfLine<T>) __builtin_prefetch(later + k);
      if constexpr (std::is_same_v<T, float>) {
        add(list, r, a.row<T>(r), a.cols);
      } else {
        float widened[kMostListSteps];
        const T* const row = a.row<T>(r);
#pragma omp simd
        for (int64_t k = 0; k < a.cols; ++k) widened[k] = load(row[k]);
        add(list, r, widened, a.cols);
      }
    }
  }

  template <typename T>
  void add_columns(int64_t list, const ConstTensor& a) {
    // Whole lines of each row: the rest of the rows evicts them if their stride is a power of two.
    constexpr int64_t kColumns = 32;
    constexpr int64_t kTurnedRow = kMostListSteps + kOfLine<float>;
    alignas(64) float turned[kColumns * kTurnedRow];
    for (int64_t r = 0; r < rows_; r += kColumns) {
      const int64_t count = std::min(kColumns, rows_ - r);
      for (int64_t k = 0; k < a.rows; k += kLookedAt) {
        const int64_t steps = std::min(kLookedAt, a.rows - k);
        const T* const from = a.row<T>(k) + r;
        for (int64_t i = 2 * kLookedAt; i < 3 * kLookedAt; ++i) {
          for (int64_t j = 0; j < kColumns; j += kOfLine<T>) __builtin_prefetch(from + i * a.stride + j);
        }
        transpose(from, a.stride, turned + k, kTurnedRow, count, steps);
      }
      for (int64_t i = 0; i < count; ++i) add(list, r + i, turned + i * kTurnedRow, a.rows);
    }
  }

  void add(int64_t list, int64_t row, const float* from, int64_t steps) {
    begin_[list * rows_ + row] = used_;
    int64_t used = used_;
    int64_t k = 0;
    for (; k + kLookedAt <= steps; k += kLookedAt)
      used += append_nonzero<kPanelRowBytes>(from + k, k, values_ + used, offsets_ + used);
    if (k < steps) {
      float rest[kLookedAt] = {};
      std::copy(from + k, from + steps, rest);
      used += append_nonzero<kPanelRowBytes>(rest, k, values_ + used, offsets_ + used);
    }
    used_ = static_cast<int32_t>(used);
  }

  int64_t steps_;
  float* values_;
  uint16_t* offsets_;
  int32_t* begin_;  // of each list; it ends where the next one begins
  int64_t rows_ = 0;
  int32_t used_ = 0;
};

}  // namespace ventris
