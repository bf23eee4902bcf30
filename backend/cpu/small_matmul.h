// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "backend/cpu/fused.h"
#include "backend/cpu/vector.h"

/// Products of the small matrices of attention, in f32 or f64, in scratch memory that stays in the cache.
/// Columns are padded to a multiple of kLanes. Every element of a product is one chain of fused multiply-adds
/// in order of k: its bits do not depend on the blocking of the loops.
namespace ventris {

/// Rows of a register block that is `vectors` wide: the maximum that leaves registers for the operands.
constexpr int block_rows(int vectors) {
  return kMaxVectors == 4 ? (vectors == 4 ? 6 : 8) : (vectors == 1 ? 8 : 5);
}

/// c[i, :] (+)= sum over k of a[i * row_step + k * k_step] * b[k, :], for kRows rows and kVectors vectors of
/// columns.
template <typename R, int kRows, int kVectors>
void matmul_block(int64_t depth, const R* a, int64_t row_step, int64_t k_step, const R* b, int64_t b_stride,
                  R* c, int64_t c_stride, bool accumulate) {
  Vector<R> sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      sum[i][v] = accumulate ? load_vector(c + i * c_stride + v * kLanes<R>) : Vector<R>{};
    }
  }
  for (int64_t k = 0; k < depth; ++k) {
    Vector<R> row[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) row[v] = load_vector(b + k * b_stride + v * kLanes<R>);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const Vector<R> factor = in_all_lanes(a[i * row_step + k * k_step]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[i][v] = fused(factor, row[v], sum[i][v]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) store_vector(c + i * c_stride + v * kLanes<R>, sum[i][v]);
  }
}

/// The part of a product with a lower-triangular matrix that is computed. Element (i, j) of the triangle is
/// zero or not needed if j > i + diagonal.
enum class Triangle {
  kNone,            // all of it
  kResult,          // c is the triangle: columns after the diagonal of a block of rows are not computed
  kLeft,            // a is the triangle: the sum over k ends with the diagonal
  kLeftTransposed,  // a is the transposed triangle: the sum over k starts with the diagonal
};

/// c = a b, or c += a b. `a` has arbitrary strides, so it may be transposed; b: [depth, cols]; c: [rows,
/// cols].
template <typename R>
struct SmallMatmul {
  int64_t rows;
  int64_t cols;  // a multiple of kLanes<R>
  int64_t depth;
  const R* a;
  int64_t row_step;
  int64_t k_step;
  const R* b;
  int64_t b_stride;
  R* c;
  int64_t c_stride;
  bool accumulate = false;
  Triangle triangle = Triangle::kNone;
  int64_t diagonal = 0;
};

/// Rows [first, first + kRows) of all products, kVectors vectors of columns from `column`.
template <typename R, int kRows, int kVectors>
void matmul_rows(const SmallMatmul<R>& m, int64_t first, int64_t column) {
  int64_t begin = 0;
  int64_t end = m.depth;
  if (m.triangle == Triangle::kResult && column > first + kRows - 1 + m.diagonal) return;
  if (m.triangle == Triangle::kLeft) end = std::clamp<int64_t>(first + kRows + m.diagonal, 0, m.depth);
  if (m.triangle == Triangle::kLeftTransposed) begin = std::clamp<int64_t>(first - m.diagonal, 0, m.depth);
  matmul_block<R, kRows, kVectors>(end - begin, m.a + first * m.row_step + begin * m.k_step, m.row_step,
                                   m.k_step, m.b + begin * m.b_stride + column, m.b_stride,
                                   m.c + first * m.c_stride + column, m.c_stride, m.accumulate);
}

/// All rows of kVectors vectors of columns: whole blocks, then the remaining rows as one smaller block.
template <typename R, int kVectors>
void matmul_columns(const SmallMatmul<R>& m, int64_t column) {
  constexpr int kRows = block_rows(kVectors);
  int64_t first = 0;
  for (; first + kRows <= m.rows; first += kRows) matmul_rows<R, kRows, kVectors>(m, first, column);
  const int left = static_cast<int>(m.rows - first);
  [&]<int... kLeft>(std::integer_sequence<int, kLeft...>) {
    static_cast<void>(
        ((left == kLeft + 1 && (matmul_rows<R, kLeft + 1, kVectors>(m, first, column), true)) || ...));
  }
  (std::make_integer_sequence<int, kRows - 1>());
}

template <typename R>
void small_matmul(const SmallMatmul<R>& m) {
  int64_t column = 0;
  for (; column + kMaxVectors * kLanes<R> <= m.cols; column += kMaxVectors * kLanes<R>) {
    matmul_columns<R, kMaxVectors>(m, column);
  }
  const int left = static_cast<int>((m.cols - column) / kLanes<R>);
  if constexpr (kMaxVectors > 2) {
    if (left == 3) return matmul_columns<R, 3>(m, column);
    if (left == 2) return matmul_columns<R, 2>(m, column);
  }
  if (left == 1) matmul_columns<R, 1>(m, column);
}

}  // namespace ventris
