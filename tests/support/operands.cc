// SPDX-License-Identifier: Apache-2.0
#include "tests/support/operands.h"

#include <cstdlib>
#include <cstring>

namespace ventris::testing {
namespace {

/// All bits are set in a NaN of f32, bf16 and f64.
constexpr char kNan = '\xFF';

bool far_rows() {
  static const bool wanted = std::getenv("VENTRIS_TEST_FAR_ROWS") != nullptr;
  return wanted;
}

int64_t stride_of(int64_t rows, int64_t cols, int64_t gap) {
  constexpr int64_t kFar = int64_t{1} << 32;
  constexpr int64_t kVectors = 8;   // elements to which kernels ask rows to be aligned
  constexpr int64_t kMaxRows = 80;  // each of which takes pages of its own
  if (!far_rows() || rows < 2 || rows > kMaxRows) return cols + gap;
  return (kFar / (rows - 1) / kVectors + 1) * kVectors + (cols + gap) % kVectors;
}

}  // namespace

MatrixOperand::MatrixOperand(const Tensor& shape) : view_(shape) {
  view_.data = allocate_on_test_device(bytes());
}

MatrixOperand::MatrixOperand(int64_t rows, int64_t cols, DType dtype, int64_t gap)
    : MatrixOperand(Tensor{nullptr, rows, cols, stride_of(rows, cols, gap), dtype}) {
  forget();
}

MatrixOperand::MatrixOperand(const Buffer& host, int64_t gap)
    : MatrixOperand(Tensor{nullptr, host.view().rows, host.view().cols,
                           stride_of(host.view().rows, host.view().cols, gap), host.view().dtype}) {
  std::vector<char> image = image_of_nan();
  if (image.empty()) return;
  for (size_t r = 0; r < static_cast<size_t>(view_.rows); ++r) {
    std::memcpy(image.data() + r * image_pitch(),
                static_cast<const char*>(host.view().data) + r * row_bytes(), row_bytes());
  }
  write(image);
}

void MatrixOperand::forget() const {
  write(image_of_nan());
}

Buffer MatrixOperand::get() const {
  const std::vector<char> nan = image_of_nan();
  const std::vector<char> image = read();
  Buffer host(view_.rows, view_.cols, view_.dtype);
  const auto rows = static_cast<size_t>(view_.rows);
  for (size_t r = 0; r < rows; ++r) {
    const char* row = image.data() + r * image_pitch();
    std::memcpy(static_cast<char*>(host.view().data) + r * row_bytes(), row, row_bytes());
    if (r + 1 == rows) break;
    EXPECT_EQ(std::memcmp(row + row_bytes(), nan.data(), image_pitch() - row_bytes()), 0)
        << "what lies between rows " << r << " and " << r + 1 << " was written";
  }
  return host;
}

size_t MatrixOperand::bytes() const {
  return view_.rows == 0 ? 0 : static_cast<size_t>(view_.rows - 1) * pitch() + row_bytes();
}

size_t MatrixOperand::image_pitch() const {
  return far_rows() ? row_bytes() : pitch();
}

std::vector<char> MatrixOperand::image_of_nan() const {
  const size_t rows = static_cast<size_t>(view_.rows);
  return std::vector<char>(rows == 0 ? 0 : (rows - 1) * image_pitch() + row_bytes(), kNan);
}

void MatrixOperand::write(const std::vector<char>& image) const {
  if (!far_rows()) return copy_to_device(test_context(), view_.data, image.data(), image.size());
  for (size_t r = 0; r < static_cast<size_t>(view_.rows); ++r)
    copy_to_device(test_context(), static_cast<char*>(view_.data) + r * pitch(),
                   image.data() + r * row_bytes(), row_bytes());
}

std::vector<char> MatrixOperand::read() const {
  std::vector<char> image = image_of_nan();
  if (!far_rows()) {
    copy_to_host(test_context(), image.data(), view_.data, image.size());
    return image;
  }
  for (size_t r = 0; r < static_cast<size_t>(view_.rows); ++r)
    copy_to_host(test_context(), image.data() + r * row_bytes(), static_cast<char*>(view_.data) + r * pitch(),
                 row_bytes());
  return image;
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
