// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backend/device/transfer.h"
#include "tests/support/compare.h"
#include "tests/support/test_device.h"

/// What operations read and write in tests: memory of the device that the program tests.
namespace ventris::testing {

/// Numbers with the contents of a vector.
template <typename T>
class ArrayOperand {
 public:
  explicit ArrayOperand(const std::vector<T>& values)
      : count_(values.size()), data_(static_cast<T*>(allocate_on_test_device(count_ * sizeof(T)))) {
    set(values);
  }
  ~ArrayOperand() { free_on_test_device(data_); }
  ArrayOperand(const ArrayOperand&) = delete;
  ArrayOperand& operator=(const ArrayOperand&) = delete;

  T* data() const { return data_; }
  /// Requires: as many as there are.
  void set(const std::vector<T>& values) {
    copy_to_device(test_context(), data_, values.data(), count_ * sizeof(T));
  }
  /// After the work that the context was given.
  std::vector<T> get() const {
    std::vector<T> values(count_);
    copy_to_host(test_context(), values.data(), data_, count_ * sizeof(T));
    return values;
  }

 private:
  size_t count_;
  T* data_;
};

/// A matrix with `gap` elements between its rows, which hold NaN and must keep it. With
/// $VENTRIS_TEST_FAR_ROWS, for devices whose memory costs nothing until it is touched, the last of at most 80
/// rows begins more than 2^32 elements after the first, at the alignment that the gap gives, and gaps hold
/// anything.
class MatrixOperand {
 public:
  /// Holds NaN.
  MatrixOperand(int64_t rows, int64_t cols, DType dtype, int64_t gap = 0);
  explicit MatrixOperand(const Buffer& host, int64_t gap = 0);
  ~MatrixOperand() { free_on_test_device(view_.data); }
  MatrixOperand(const MatrixOperand&) = delete;
  MatrixOperand& operator=(const MatrixOperand&) = delete;

  Tensor view() const { return view_; }
  /// Everything is NaN again.
  void forget() const;
  /// What the matrix holds after the work that the context was given. The test fails if a gap does not hold
  /// NaN any more.
  Buffer get() const;

 private:
  /// Holds anything.
  explicit MatrixOperand(const Tensor& shape);
  size_t row_bytes() const { return static_cast<size_t>(view_.cols) * size_of(view_.dtype); }
  size_t pitch() const { return static_cast<size_t>(view_.stride) * size_of(view_.dtype); }
  size_t bytes() const;
  /// All of the memory of the matrix, with its gaps, or where rows are far apart its rows alone, one after
  /// the other.
  size_t image_pitch() const;
  std::vector<char> image_of_nan() const;
  void write(const std::vector<char>& image) const;
  std::vector<char> read() const;

  Tensor view_;
};

void expect_close(const std::string& name, const MatrixOperand& got, const std::vector<double>& expected,
                  DType dtype);
void expect_same_bits(const std::string& name, const MatrixOperand& got, const Buffer& expected);
void expect_same_bits(const std::string& name, const MatrixOperand& a, const MatrixOperand& b);

}  // namespace ventris::testing
