// SPDX-License-Identifier: Apache-2.0
#include "trainer/checks/selftest_trial.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/philox.h"

namespace ventris {
namespace {

constexpr int64_t kPieceBytes = int64_t{32} << 20;  // of a matrix that is copied at a time
constexpr int64_t kRowsOfTask = 16;
constexpr int64_t kNumbers = 4;  // of one call of Philox
constexpr std::array<uint32_t, 2> kKey = {0x73656C66U, 0x74657374U};
constexpr const char* kPurpose = "operands of the self-test";
constexpr double kInfinity = std::numeric_limits<double>::infinity();

int64_t rows_of_piece(int64_t rows, size_t row_bytes) {
  return std::clamp<int64_t>(kPieceBytes / static_cast<int64_t>(std::max<size_t>(row_bytes, 1)), 1,
                             std::max<int64_t>(rows, 1));
}

/// How far a number is from the one that is expected, as a part of the tolerance.
double error_of(double got, double expected, Tolerance tolerance) {
  if (got == expected || (std::isnan(got) && std::isnan(expected))) return 0.0;
  const double error =
      std::abs(got - expected) / (tolerance.absolute + tolerance.relative * std::abs(expected));
  return std::isnan(error) ? kInfinity : error;
}

double rounded(double value, DType dtype) {
  const auto single = static_cast<float>(value);
  return dtype == DType::kBF16 ? static_cast<double>(static_cast<float>(BF16(single)))
                               : static_cast<double>(single);
}

template <typename T>
void store_row(const double* from, int64_t count, char* to) {
  for (int64_t i = 0; i < count; ++i) {
    const T value(static_cast<float>(from[i]));
    std::memcpy(to + static_cast<size_t>(i) * sizeof(T), &value, sizeof(T));
  }
}

struct Worst {
  double error = 0.0;
  int64_t row = 0;
  int64_t col = 0;
  double got = 0.0;
  double expected = 0.0;
};

/// The greatest error of a row and of what is in `worst`, as a part of the tolerance; not a number is
/// infinitely far.
template <typename T>
void compare_row(const T* got, int64_t row, int64_t cols, const double* expected, Tolerance tolerance,
                 Worst& worst) {
  for (int64_t i = 0; i < cols; ++i) {
    const auto value = static_cast<double>(static_cast<float>(got[i]));
    const double difference = std::abs(value - expected[i]);
    const double allowed = worst.error * (tolerance.absolute + tolerance.relative * std::abs(expected[i]));
    if (difference <= allowed) [[likely]]
      continue;
    const double error = error_of(value, expected[i], tolerance);
    if (error > worst.error) worst = {error, row, i, value, expected[i]};
  }
}

double root_mean_square(const double* values, int64_t count) {
  double sum = 0.0;
  for (int64_t i = 0; i < count; ++i) sum += values[i] * values[i];
  return count == 0 ? 0.0 : std::sqrt(sum / static_cast<double>(count));
}

}  // namespace

Operand::Operand(Context& context, int64_t rows, int64_t cols, DType dtype)
    : memory_(context.device(), static_cast<size_t>(rows * cols) * size_of(dtype), kPurpose),
      view_(memory_.allocate(rows, cols, dtype)) {
  const size_t row_bytes = static_cast<size_t>(cols) * size_of(dtype);
  const int64_t step = rows_of_piece(rows, row_bytes);
  const std::vector<char> nan(static_cast<size_t>(step) * row_bytes, '\xFF');
  for (int64_t begin = 0; begin < rows; begin += step) {
    const int64_t count = std::min(step, rows - begin);
    copy_to_device(context, view_.row_range(begin, count).data, nan.data(),
                   static_cast<size_t>(count) * row_bytes);
  }
}

Operand::Operand(Context& context, const Matrix& values, DType dtype, int64_t rows)
    : memory_(context.device(), static_cast<size_t>(rows * values.cols) * size_of(dtype), kPurpose),
      view_(memory_.allocate(rows, values.cols, dtype)) {
  const size_t row_bytes = static_cast<size_t>(values.cols) * size_of(dtype);
  const int64_t step = rows_of_piece(std::min(rows, values.rows), row_bytes);
  std::vector<char> piece(static_cast<size_t>(step) * row_bytes);
  for (int64_t first = 0; first < values.rows; first += step) {
    const int64_t end = std::min(values.rows, first + step);
    context.pool().for_ranges(end - first, kRowsOfTask, [&](int64_t from, int64_t to, int) {
      for (int64_t r = from; r < to; ++r) {
        char* place = piece.data() + static_cast<size_t>(r) * row_bytes;
        dtype == DType::kBF16 ? store_row<BF16>(values.row(first + r), values.cols, place)
                              : store_row<float>(values.row(first + r), values.cols, place);
      }
    });
    for (int64_t begin = first; begin < rows; begin += values.rows) {
      const int64_t count = std::min(end - first, rows - begin);
      copy_to_device(context, view_.row_range(begin, count).data, piece.data(),
                     static_cast<size_t>(count) * row_bytes);
    }
  }
}

Matrix Trial::draw(int64_t rows, int64_t cols, DType dtype, double spread) {
  Matrix drawn(rows, cols);
  const uint32_t matrix = drawn_++;
  const double unit = spread * std::sqrt(3.0) / 2147483648.0;  // of a uniform number in [-2^31, 2^31)
  context_.pool().for_ranges(rows, kRowsOfTask, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      double* row = drawn.row(r);
      for (int64_t i = 0; i < cols; i += kNumbers) {
        const auto bits =
            philox4x32_10({static_cast<uint32_t>(i / kNumbers), static_cast<uint32_t>(r), matrix, 0}, kKey);
        for (int64_t j = 0; j < std::min(kNumbers, cols - i); ++j)
          row[i + j] =
              rounded(unit * static_cast<double>(static_cast<int32_t>(bits[static_cast<size_t>(j)])), dtype);
      }
    }
  });
  return drawn;
}

std::vector<int32_t> Trial::draw_integers(int64_t count, int64_t limit) {
  std::vector<int32_t> drawn;
  const uint32_t matrix = drawn_++;
  for (int64_t i = 0; i < count; ++i) {
    const auto bits = philox4x32_10({static_cast<uint32_t>(i), 0, matrix, 1}, kKey);
    drawn.push_back(static_cast<int32_t>((uint64_t{bits[0]} * static_cast<uint64_t>(limit)) >> 32));
  }
  return drawn;
}

void Trial::expect(const char* name, const ConstTensor& got, const Matrix& expected, Tolerance tolerance,
                   double scale) {
  compare(name, got, expected, tolerance, std::vector<double>(static_cast<size_t>(expected.rows), scale));
}

void Trial::expect(const char* name, const ConstTensor& got, const Matrix& expected, Tolerance tolerance) {
  const double of_all = root_mean_square(expected.row(0), expected.rows * expected.cols);
  std::vector<double> scales(static_cast<size_t>(expected.rows));
  context_.pool().for_ranges(expected.rows, kRowsOfTask, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r)
      scales[static_cast<size_t>(r)] = std::max(of_all, root_mean_square(expected.row(r), expected.cols));
  });
  compare(name, got, expected, tolerance, scales);
}

void Trial::compare(const char* name, const ConstTensor& got, const Matrix& expected, Tolerance tolerance,
                    const std::vector<double>& scales) {
  const int64_t step = rows_of_piece(got.rows, static_cast<size_t>(got.cols) * size_of(got.dtype));
  Worst worst;
  for (int64_t first = 0; first < got.rows; first += step) {
    const int64_t count = std::min(step, got.rows - first);
    const HostCopy copy(context_, got.row_range(first, count));
    const ConstTensor& piece = copy.view();
    std::vector<Worst> found(static_cast<size_t>((count + kRowsOfTask - 1) / kRowsOfTask));
    context_.pool().for_ranges(count, kRowsOfTask, [&](int64_t begin, int64_t end, int) {
      Worst& own = found[static_cast<size_t>(begin / kRowsOfTask)];
      for (int64_t r = begin; r < end; ++r) {
        const int64_t row = (first + r) % expected.rows;
        const double* wanted = expected.row(row);
        const Tolerance of_row = {tolerance.absolute * scales[static_cast<size_t>(row)], tolerance.relative};
        piece.dtype == DType::kBF16
            ? compare_row(piece.row<BF16>(r), first + r, piece.cols, wanted, of_row, own)
            : compare_row(piece.row<float>(r), first + r, piece.cols, wanted, of_row, own);
      }
    });
    for (const Worst& one : found) {
      if (one.error > worst.error) worst = one;
    }
  }
  note(worst.error, fmt::format("{}[{}, {}] is {:.6g}, expected {:.6g}", name, worst.row, worst.col,
                                worst.got, worst.expected));
}

void Trial::expect(const char* name, double got, double expected, Tolerance tolerance) {
  note(error_of(got, expected, tolerance), fmt::format("{} is {:.9g}, expected {:.9g}", name, got, expected));
}

void Trial::fail_with(const std::string& finding) {
  note(kInfinity, finding);
}

void Trial::note(double error, const std::string& finding) {
  if (error > 1.0 && error > error_) finding_ = finding;
  error_ = std::max(error_, error);
}

}  // namespace ventris
