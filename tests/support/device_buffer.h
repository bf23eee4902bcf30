// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "backend/device/tensor.h"

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
    const std::vector<double>& normal = normal_numbers(seed, static_cast<size_t>(buffer.size()));
    for (int64_t i = 0; i < buffer.size(); ++i) buffer.set(i, normal[static_cast<size_t>(i)] * spread);
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
  /// At least `count` numbers of a seed. They are kept: to draw them takes longer than most operations.
  static const std::vector<double>& normal_numbers(uint32_t seed, size_t count) {
    struct Numbers {
      explicit Numbers(uint32_t seed) : generator(seed) {}
      std::mt19937 generator;
      std::normal_distribution<double> normal;
      std::vector<double> drawn;
    };
    thread_local std::map<uint32_t, Numbers> by_seed;
    Numbers& numbers = by_seed.try_emplace(seed, seed).first->second;
    while (numbers.drawn.size() < count) numbers.drawn.push_back(numbers.normal(numbers.generator));
    return numbers.drawn;
  }
  void* address() { return bytes_.data(); }

  int64_t rows_;
  int64_t cols_;
  DType dtype_;
  std::vector<char> bytes_;
};

}  // namespace ventris::testing
