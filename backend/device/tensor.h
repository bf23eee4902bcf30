// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "backend/device/dtype.h"
#include "backend/device/error.h"

namespace ventris {

/// A view of a row-major matrix on a device; never an owner. A vector is a matrix of one row. `stride` is the
/// distance between rows in elements, so that a block of columns of a wider matrix is a view too. An empty
/// view (data == nullptr) stands for an absent argument.
struct ConstTensor {
  const void* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;
  DType dtype = DType::kF32;

  explicit operator bool() const { return data != nullptr; }
  int64_t size() const { return rows * cols; }
  bool contiguous() const { return stride == cols || rows <= 1; }

  template <typename T>
  const T* as() const {
    VENTRIS_DCHECK(dtype == DTypeOf<T>::value, "the view holds {}", name_of(dtype));
    return static_cast<const T*>(data);
  }
  template <typename T>
  const T* row(int64_t r) const {
    return as<T>() + r * stride;
  }

  /// Rows [begin, begin + count).
  ConstTensor row_range(int64_t begin, int64_t count) const {
    return {static_cast<const char*>(data) + begin * stride * static_cast<int64_t>(size_of(dtype)), count,
            cols, stride, dtype};
  }
  /// Columns [begin, begin + count).
  ConstTensor col_range(int64_t begin, int64_t count) const {
    return {static_cast<const char*>(data) + begin * static_cast<int64_t>(size_of(dtype)), rows, count,
            stride, dtype};
  }
};

/// As ConstTensor, but writable.
struct Tensor {
  void* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;
  DType dtype = DType::kF32;

  explicit operator bool() const { return data != nullptr; }
  operator ConstTensor() const { return {data, rows, cols, stride, dtype}; }
  int64_t size() const { return rows * cols; }
  bool contiguous() const { return stride == cols || rows <= 1; }

  template <typename T>
  T* as() const {
    VENTRIS_DCHECK(dtype == DTypeOf<T>::value, "the view holds {}", name_of(dtype));
    return static_cast<T*>(data);
  }
  template <typename T>
  T* row(int64_t r) const {
    return as<T>() + r * stride;
  }

  Tensor row_range(int64_t begin, int64_t count) const {
    return {static_cast<char*>(data) + begin * stride * static_cast<int64_t>(size_of(dtype)), count, cols,
            stride, dtype};
  }
  Tensor col_range(int64_t begin, int64_t count) const {
    return {static_cast<char*>(data) + begin * static_cast<int64_t>(size_of(dtype)), rows, count, stride,
            dtype};
  }
};

}  // namespace ventris
