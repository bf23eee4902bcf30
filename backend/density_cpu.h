// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/simd_cpu.h"
#include "backend/tensor.h"

namespace ventris {

/// Share of the elements that are not zero, by some rows.
template <typename T>
double density_of(const ConstTensor& x) {
  constexpr int64_t kSample = 32;
  const int64_t rows = std::min(kSample, x.rows);
  int64_t found = 0;
  for (int64_t i = 0; i < rows; ++i) {
    const T* const row = x.row<T>(x.rows * i / rows);
    int32_t in_row = 0;
#pragma omp simd reduction(+ : in_row)
    for (int64_t c = 0; c < x.cols; ++c) in_row += load(row[c]) != 0.0F ? 1 : 0;
    found += in_row;
  }
  return static_cast<double>(found) / static_cast<double>(rows * x.cols);
}

inline double density(const ConstTensor& x) {
  return x.dtype == DType::kF32 ? density_of<float>(x) : density_of<BF16>(x);
}

}  // namespace ventris
