// SPDX-License-Identifier: Apache-2.0
#include "tests/support/operands.h"

#include <cstring>

namespace ventris::testing {
namespace {

/// All bits are set in a NaN of f32, bf16 and f64.
constexpr char kNan = '\xFF';

}  // namespace

MatrixOperand::MatrixOperand(const Tensor& shape) : view_(shape) {
  view_.data = allocate_on_test_device(image_of_nan().size());
}

MatrixOperand::MatrixOperand(int64_t rows, int64_t cols, DType dtype, int64_t gap)
    : MatrixOperand(Tensor{nullptr, rows, cols, cols + gap, dtype}) {
  forget();
}

MatrixOperand::MatrixOperand(const Buffer& host, int64_t gap)
    : MatrixOperand(
          Tensor{nullptr, host.view().rows, host.view().cols, host.view().cols + gap, host.view().dtype}) {
  std::vector<char> image = image_of_nan();
  if (image.empty()) return;
  for (size_t r = 0; r < static_cast<size_t>(view_.rows); ++r) {
    std::memcpy(image.data() + r * pitch(), static_cast<const char*>(host.view().data) + r * row_bytes(),
                row_bytes());
  }
  copy_to_device(test_context(), view_.data, image.data(), image.size());
}

void MatrixOperand::forget() const {
  const std::vector<char> nan = image_of_nan();
  copy_to_device(test_context(), view_.data, nan.data(), nan.size());
}

Buffer MatrixOperand::get() const {
  const std::vector<char> nan = image_of_nan();
  std::vector<char> image = nan;
  copy_to_host(test_context(), image.data(), view_.data, image.size());
  Buffer host(view_.rows, view_.cols, view_.dtype);
  const auto rows = static_cast<size_t>(view_.rows);
  for (size_t r = 0; r < rows; ++r) {
    const char* row = image.data() + r * pitch();
    std::memcpy(static_cast<char*>(host.view().data) + r * row_bytes(), row, row_bytes());
    if (r + 1 == rows) break;
    EXPECT_EQ(std::memcmp(row + row_bytes(), nan.data(), pitch() - row_bytes()), 0)
        << "what lies between rows " << r << " and " << r + 1 << " was written";
  }
  return host;
}

std::vector<char> MatrixOperand::image_of_nan() const {
  const size_t bytes = view_.rows == 0 ? 0 : static_cast<size_t>(view_.rows - 1) * pitch() + row_bytes();
  return std::vector<char>(bytes, kNan);
}

void expect_close(const std::string& name, const MatrixOperand& got, const std::vector<double>& expected,
                  DType dtype) {
  expect_close(name, got.get(), expected, tolerance_of(dtype));
}

void expect_same_bits(const std::string& name, const MatrixOperand& got, const Buffer& expected) {
  expect_same_bits(name, got.get(), expected);
}

void expect_same_bits(const std::string& name, const MatrixOperand& a, const MatrixOperand& b) {
  expect_same_bits(name, a.get(), b.get());
}

}  // namespace ventris::testing
