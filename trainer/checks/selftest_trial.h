// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "backend/context.h"
#include "backend/tolerance.h"
#include "backend/transfer.h"

// Private to the files of the self-test.

namespace ventris {

/// Numbers in host memory, row by row.
struct Matrix {
  Matrix(int64_t rows_, int64_t cols_)
      : rows(rows_), cols(cols_), values(static_cast<size_t>(rows_ * cols_)) {}

  double* row(int64_t r) { return values.data() + r * cols; }
  const double* row(int64_t r) const { return values.data() + r * cols; }
  double& at(int64_t r, int64_t c) { return row(r)[c]; }
  double at(int64_t r, int64_t c) const { return row(r)[c]; }
  Tensor view() { return {values.data(), rows, cols, cols, DType::kF64}; }
  ConstTensor view() const { return {values.data(), rows, cols, cols, DType::kF64}; }

  int64_t rows;
  int64_t cols;
  std::vector<double> values;
};

/// A matrix in memory of the device under test.
class Operand {
 public:
  /// Every bit is set: NaN in every dtype.
  Operand(Context& context, int64_t rows, int64_t cols, DType dtype);
  /// Row r holds row r mod values.rows of `values`, rounded to the dtype.
  Operand(Context& context, const Matrix& values, DType dtype, int64_t rows);
  Operand(Context& context, const Matrix& values, DType dtype)
      : Operand(context, values, dtype, values.rows) {}

  Tensor view() const { return view_; }
  operator ConstTensor() const { return view_; }

 private:
  Arena memory_;
  Tensor view_;
};

/// Numbers of a type in memory of the device under test.
template <typename T>
class Numbers {
 public:
  Numbers(Context& context, const std::vector<T>& values)
      : context_(context),
        count_(values.size()),
        memory_(context.device(), (count_ + 1) * sizeof(T), "operands of the self-test") {
    data_ = memory_.allocate_array<T>(static_cast<int64_t>(count_ + 1));
    copy_to_device(context, data_, values.data(), count_ * sizeof(T));
  }

  T* data() const { return data_; }
  /// After the work that the context was given.
  std::vector<T> get() const {
    std::vector<T> values(count_);
    copy_to_host(context_, values.data(), data_, count_ * sizeof(T));
    return values;
  }

 private:
  Context& context_;
  size_t count_;
  Arena memory_;
  T* data_;
};

/// The trial of one kernel: makes its operands and compares its results.
class Trial {
 public:
  explicit Trial(Context& context) : context_(context) {}

  Context& context() const { return context_; }
  /// Uniform numbers of mean 0 and standard deviation `spread`, rounded to a dtype. The same in every run; no
  /// two matrices of a trial are alike.
  Matrix draw(int64_t rows, int64_t cols, DType dtype, double spread = 1.0);
  /// Each in [0, limit).
  std::vector<int32_t> draw_integers(int64_t count, int64_t limit);

  /// Row r of `got` must hold row r mod expected.rows of `expected`, within a tolerance whose absolute part
  /// is multiplied by `scale`.
  void expect(const char* name, const ConstTensor& got, const Matrix& expected, Tolerance tolerance,
              double scale);
  /// With the root mean square of `expected` as the scale, or that of the row where it is greater: the row of
  /// a key that many queries attend to is a sum of more terms than others.
  void expect(const char* name, const ConstTensor& got, const Matrix& expected, Tolerance tolerance);
  void expect(const char* name, double got, double expected, Tolerance tolerance);
  /// Equal, or both NaN.
  template <typename T>
  void expect_same(const char* name, const std::vector<T>& got, const std::vector<T>& expected) {
    for (size_t i = 0; i < got.size(); ++i)
      expect(name, static_cast<double>(got[i]), static_cast<double>(expected[i]), {0.0, 0.0});
  }
  /// What failed other than by a wrong number.
  void fail_with(const std::string& finding);
  double error() const { return error_; }
  const std::string& finding() const { return finding_; }

 private:
  /// With a scale for each row of `expected`.
  void compare(const char* name, const ConstTensor& got, const Matrix& expected, Tolerance tolerance,
               const std::vector<double>& scales);
  void note(double error, const std::string& finding);

  Context& context_;
  uint32_t drawn_ = 0;
  double error_ = 0.0;
  std::string finding_;
};

}  // namespace ventris
