#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "backend/transfer.h"
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

/// A matrix with `gap` elements between its rows, which hold NaN and must keep it.
class MatrixOperand {
 public:
  /// Holds NaN.
  MatrixOperand(int64_t rows, int64_t cols, DType dtype, int64_t gap = 0)
      : MatrixOperand(image_of_nan(rows, cols, dtype, gap), {nullptr, rows, cols, cols + gap, dtype}) {}
  explicit MatrixOperand(const Buffer& host, int64_t gap = 0)
      : MatrixOperand(image_of(host, gap), with_gap(host.view(), gap)) {}
  ~MatrixOperand() { free_on_test_device(view_.data); }
  MatrixOperand(const MatrixOperand&) = delete;
  MatrixOperand& operator=(const MatrixOperand&) = delete;

  Tensor view() const { return view_; }
  /// Everything is NaN again.
  void forget() const {
    const std::vector<char> nan =
        image_of_nan(view_.rows, view_.cols, view_.dtype, view_.stride - view_.cols);
    copy_to_device(test_context(), view_.data, nan.data(), nan.size());
  }
  /// What the matrix holds after the work that the context was given. The test fails if a gap does not hold
  /// NaN any more.
  Buffer get() const {
    std::vector<char> image = image_of_nan(view_.rows, view_.cols, view_.dtype, view_.stride - view_.cols);
    const std::vector<char> nan(image.size(), kNan);
    copy_to_host(test_context(), image.data(), view_.data, image.size());
    Buffer host(view_.rows, view_.cols, view_.dtype);
    const size_t row = static_cast<size_t>(view_.cols) * size_of(view_.dtype);
    const size_t pitch = static_cast<size_t>(view_.stride) * size_of(view_.dtype);
    for (size_t r = 0; r < static_cast<size_t>(view_.rows); ++r) {
      std::memcpy(static_cast<char*>(host.view().data) + r * row, image.data() + r * pitch, row);
      if (r + 1 == static_cast<size_t>(view_.rows)) break;
      EXPECT_EQ(std::memcmp(image.data() + r * pitch + row, nan.data(), pitch - row), 0)
          << "what lies between rows " << r << " and " << r + 1 << " was written";
    }
    return host;
  }

 private:
  /// All bits are set in a NaN of f32, bf16 and f64.
  static constexpr char kNan = '\xFF';

  MatrixOperand(const std::vector<char>& image, const Tensor& view) : view_(view) {
    view_.data = allocate_on_test_device(image.size());
    copy_to_device(test_context(), view_.data, image.data(), image.size());
  }
  static Tensor with_gap(ConstTensor host, int64_t gap) {
    return {nullptr, host.rows, host.cols, host.cols + gap, host.dtype};
  }
  static std::vector<char> image_of_nan(int64_t rows, int64_t cols, DType dtype, int64_t gap) {
    const int64_t elements = rows == 0 ? 0 : (rows - 1) * (cols + gap) + cols;
    return std::vector<char>(static_cast<size_t>(elements) * size_of(dtype), kNan);
  }
  static std::vector<char> image_of(const Buffer& host, int64_t gap) {
    const ConstTensor from = host.view();
    std::vector<char> image = image_of_nan(from.rows, from.cols, from.dtype, gap);
    const size_t row = static_cast<size_t>(from.cols) * size_of(from.dtype);
    const size_t pitch = static_cast<size_t>(from.cols + gap) * size_of(from.dtype);
    for (size_t r = 0; r < static_cast<size_t>(from.rows); ++r)
      std::memcpy(image.data() + r * pitch, static_cast<const char*>(from.data) + r * row, row);
    return image;
  }

  Tensor view_;
};

inline void expect_close(const std::string& name, const MatrixOperand& got,
                         const std::vector<double>& expected, DType dtype) {
  expect_close(name, got.get(), expected, tolerance_of(dtype));
}
inline void expect_same_bits(const std::string& name, const MatrixOperand& got, const Buffer& expected) {
  expect_same_bits(name, got.get(), expected);
}
inline void expect_same_bits(const std::string& name, const MatrixOperand& a, const MatrixOperand& b) {
  expect_same_bits(name, a.get(), b.get());
}

}  // namespace ventris::testing
