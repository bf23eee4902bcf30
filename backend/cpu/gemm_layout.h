// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cpu/small_matmul.h"
#include "backend/ops/packed_gemm.h"

/// The layout of a PackedMatrix.
namespace ventris {

inline constexpr int64_t kPackedPanel = kMaxVectors * kLanes<float>;  // columns of a panel

/// Rows between what is copied to panels and what is fetched for later.
inline constexpr int64_t kFetchedRows = 4;

/// Interleaved rows of b: a register holds a whole number of sums.
template <typename T>
inline constexpr int64_t kPackedStep = 4 / static_cast<int64_t>(sizeof(T));

template <typename T>
constexpr int64_t packed_panel_size(int64_t depth) {
  return (depth + kPackedStep<T> - 1) / kPackedStep<T> * kPackedStep<T> * kPackedPanel;
}

/// Index of the element of a row and the first column of a panel.
template <typename T>
T* packed_at(const PackedMatrix& packed, int64_t panel, int64_t k) {
  return static_cast<T*>(packed.data) + panel * packed_panel_size<T>(packed.rows) +
         k / kPackedStep<T> * kPackedStep<T> * kPackedPanel + k % kPackedStep<T>;
}

}  // namespace ventris
