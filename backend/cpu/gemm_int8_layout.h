// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cpu/gemm_layout.h"
#include "backend/ops/packed_gemm.h"

/// The layout of a PackedMatrix of int8. A panel of kPackedPanel columns begins with their scales, f32, and
/// the initial values of their sums if a row's integers are 128 too large: -128 times the sum of the column,
/// int32. The integers follow, four rows of a column interleaved: [rows / 4, columns, 4], with zeros after
/// the last row.
namespace ventris {

inline constexpr int64_t kInt8Step = 4;  // interleaved rows: a sum takes four products at a time
inline constexpr int64_t kInt8Head = 2 * kPackedPanel * static_cast<int64_t>(sizeof(float));

/// Groups of four rows.
constexpr int64_t int8_groups(int64_t rows) {
  return (rows + kInt8Step - 1) / kInt8Step;
}

class Int8Panel {
 public:
  static constexpr int64_t bytes(int64_t rows) {
    return kInt8Head + int8_groups(rows) * kInt8Step * kPackedPanel;
  }

  Int8Panel(const PackedMatrix& packed, int64_t panel)
      : data_(static_cast<char*>(packed.data) + panel * bytes(packed.rows)) {}

  float* scales() const { return reinterpret_cast<float*>(data_); }
  int32_t* starts() const { return reinterpret_cast<int32_t*>(data_) + kPackedPanel; }
  /// Of all columns, the rows [4 * group, 4 * group + 4).
  int8_t* group(int64_t group) const {
    return reinterpret_cast<int8_t*>(data_ + kInt8Head) + group * kInt8Step * kPackedPanel;
  }

 private:
  char* data_;
};

}  // namespace ventris
