#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "backend/tensor.h"

namespace ventris::testing {

/// A matrix that owns its memory, for tests: filled from doubles, read back as doubles, whatever its dtype.
/// CPU memory.
class Buffer {
 public:
  Buffer(int64_t rows, int64_t cols, DType dtype)
      : rows_(rows),
        cols_(cols),
        dtype_(dtype),
        bytes_(static_cast<size_t>(rows * cols) * size_of(dtype) + 64) {}

  static Buffer random(int64_t rows, int64_t cols, DType dtype, uint32_t seed, double spread = 1.0) {
    Buffer buffer(rows, cols, dtype);
    std::mt19937 generator(seed);
    std::normal_distribution<double> normal(0.0, spread);
    for (int64_t i = 0; i < rows * cols; ++i) buffer.set(i, normal(generator));
    return buffer;
  }

  Tensor view() { return {address(), rows_, cols_, cols_, dtype_}; }
  ConstTensor view() const { return {const_cast<Buffer*>(this)->address(), rows_, cols_, cols_, dtype_}; }
  int64_t size() const { return rows_ * cols_; }

  void set(int64_t index, double value) {
    if (dtype_ == DType::kF64) static_cast<double*>(address())[index] = value;
    if (dtype_ == DType::kF32) static_cast<float*>(address())[index] = static_cast<float>(value);
    if (dtype_ == DType::kBF16) static_cast<BF16*>(address())[index] = BF16(static_cast<float>(value));
  }
  double get(int64_t index) const {
    void* p = const_cast<Buffer*>(this)->address();
    if (dtype_ == DType::kF64) return static_cast<double*>(p)[index];
    if (dtype_ == DType::kF32) return static_cast<float*>(p)[index];
    return static_cast<float>(static_cast<BF16*>(p)[index]);
  }
  double get(int64_t row, int64_t col) const { return get(row * cols_ + col); }

 private:
  void* address() { return bytes_.data(); }

  int64_t rows_;
  int64_t cols_;
  DType dtype_;
  std::vector<char> bytes_;
};

}  // namespace ventris::testing
