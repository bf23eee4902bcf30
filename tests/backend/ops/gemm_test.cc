// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/gemm.h"

#include <algorithm>

#include "tests/support/operands.h"
#include "tests/support/operation_case.h"

namespace ventris::testing {
namespace {

/// [m, k] times [k, n]. Operands are blocks of columns of matrices that are `gap` columns wider on the left,
/// and lie another `gap` elements apart.
struct GemmCase {
  Device device;
  DType dtype;
  int64_t m, n, k, gap;
};
std::string name_of(const GemmCase& c) {
  return device_and_dtype(c.device, c.dtype) + "_" + std::to_string(c.m) + "x" + std::to_string(c.n) + "x" +
         std::to_string(c.k) + suffix("gap", c.gap);
}
std::ostream& operator<<(std::ostream& out, const GemmCase& c) {
  return out << name_of(c);
}

std::vector<GemmCase> gemm_cases() {
  struct Shape {
    int64_t m, n, k, gap;
  };
  // The last one is several tasks and parts of the depth on the CPU.
  const std::vector<Shape> shapes = {{1, 1, 1, 0},    {1, 17, 5, 0},   {2, 3, 1, 1},     {7, 13, 31, 3},
                                     {9, 21, 8, 3},   {16, 64, 32, 8}, {32, 64, 32, 0},  {33, 65, 67, 0},
                                     {45, 70, 33, 0}, {63, 35, 77, 3}, {61, 40, 129, 0}, {100, 130, 37, 3},
                                     {12, 20, 33, 0}, {3, 5, 0, 2},    {530, 20, 600, 0}};
  std::vector<GemmCase> all;
  for (const DType dtype : test_dtypes()) {
    for (const auto& [m, n, k, gap] : shapes) all.push_back({test_device(), dtype, m, n, k, gap});
  }
  return all;
}

/// What is asked of a product besides its sizes.
struct Form {
  bool transpose_a = false;
  bool transpose_b = false;
  bool bias = false;
  bool relu = false;
  bool accumulate = false;
  bool master_result = false;
  bool rounded_bias = false;  // in the dtype of the result
};
std::ostream& operator<<(std::ostream& out, const Form& form) {
  return out << "form" << (form.transpose_a ? " a^T" : "") << (form.transpose_b ? " b^T" : "")
             << (form.bias ? " + bias" : "") << (form.rounded_bias ? " (rounded)" : "")
             << (form.relu ? ", ReLU" : "") << (form.accumulate ? ", accumulated" : "")
             << (form.master_result ? ", in the dtype of masters" : "");
}

/// A matrix in a wider one, which must not change outside of it.
class Block {
 public:
  Block(const Buffer& inner, int64_t gap)
      : gap_(gap), cols_(inner.view().cols), whole_(with_margin(inner, gap), gap) {}
  Tensor view() const { return whole_.view().col_range(gap_, cols_); }
  Buffer get() const {
    const Buffer wide = whole_.get();
    const auto& [data, rows, cols, stride, dtype] = wide.view();
    Buffer inner(rows, cols_, dtype);
    for (int64_t i = 0; i < rows * cols; ++i) {
      const int64_t c = i % cols - gap_;
      if (c >= 0) {
        inner.set(i / cols * cols_ + c, wide.get(i));
      } else {
        EXPECT_TRUE(std::isnan(wide.get(i))) << "column " << c << " was written";
      }
    }
    return inner;
  }

 private:
  static Buffer with_margin(const Buffer& inner, int64_t gap) {
    const auto& [data, rows, cols, stride, dtype] = inner.view();
    Buffer wide(rows, gap + cols, dtype);
    for (int64_t i = 0; i < wide.size(); ++i) {
      const int64_t c = i % (gap + cols) - gap;
      wide.set(i, c < 0 ? NAN : inner.get(i / (gap + cols), c));
    }
    return wide;
  }
  int64_t gap_;
  int64_t cols_;
  MatrixOperand whole_;
};

Buffer transposed(const Buffer& x) {
  const auto& [data, rows, cols, stride, dtype] = x.view();
  Buffer result(cols, rows, dtype);
  for (int64_t i = 0; i < rows * cols; ++i) result.set(i % cols * rows + i / cols, x.get(i));
  return result;
}

class Gemm : public ::testing::TestWithParam<GemmCase> {
 protected:
  void expect_right(const Form& form) const {
    const auto& [device, dtype, m, n, k, gap] = GetParam();
    SCOPED_TRACE(form);
    const Buffer bias = Buffer::random(1, n, master_dtype(dtype), 4);
    const Buffer before = Buffer::random(m, n, form.master_result ? master_dtype(dtype) : dtype, 3, 0.5);
    const Block a(form.transpose_a ? transposed(a_) : a_, gap),
        b(form.transpose_b ? transposed(b_) : b_, gap), c(before, gap), again(before, gap);
    const MatrixOperand device_bias(form.rounded_bias ? Buffer::random(1, n, dtype, 4) : bias);
    for (const Block* to : {&c, &again}) {
      gemm(to == &c ? test_context() : other_context(), {.a = a.view(),
                                                         .b = b.view(),
                                                         .c = to->view(),
                                                         .transpose_a = form.transpose_a,
                                                         .transpose_b = form.transpose_b,
                                                         .bias = form.bias ? device_bias.view() : Tensor{},
                                                         .relu = form.relu,
                                                         .accumulate = form.accumulate});
    }
    std::vector<double> expected = product_;
    for (size_t i = 0; i < expected.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      if (form.accumulate) expected[i] += before.get(at);
      if (form.bias) expected[i] += bias.get(at % n);
      if (form.relu) expected[i] = std::max(expected[i], 0.0);
    }
    Tolerance tolerance = tolerance_of(dtype);
    // The error of a sum grows with the square root of its length.
    tolerance.absolute *= std::sqrt(static_cast<double>(std::max<int64_t>(k, 1)));
    expect_close("c", c.get(), expected, tolerance);
    expect_same_bits("c again", c.get(), again.get());
  }

  const Buffer a_ = Buffer::random(GetParam().m, GetParam().k, GetParam().dtype, 1, 0.5);
  const Buffer b_ = Buffer::random(GetParam().k, GetParam().n, GetParam().dtype, 2, 0.5);
  const std::vector<double> product_ = [this] {
    const auto& [device, dtype, m, n, k, gap] = GetParam();
    std::vector<double> sums(static_cast<size_t>(m * n));
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t i = 0; i < m * n; ++i) sums[static_cast<size_t>(i)] += a_.get(i / n, p) * b_.get(p, i % n);
    }
    return sums;
  }();
};
VENTRIS_FOR_CASES(Gemm, gemm_cases());

/// However transposed, with a bias, with ReLU, or added to what is there.
TEST_P(Gemm, MatchesTheReferenceInEveryForm) {
  for (const bool transpose_b : {false, true}) {
    for (const bool transpose_a : {false, true}) {
      expect_right({.transpose_a = transpose_a, .transpose_b = transpose_b});
      for (const bool master_result : {false, true}) {
        expect_right({.transpose_a = transpose_a,
                      .transpose_b = transpose_b,
                      .accumulate = true,
                      .master_result = master_result});
      }
    }
    for (const bool master_result : {false, true}) {
      for (const bool relu : {false, true}) {
        expect_right(
            {.transpose_b = transpose_b, .bias = true, .relu = relu, .master_result = master_result});
      }
      expect_right({.transpose_b = transpose_b, .relu = true, .master_result = master_result});
    }
  }
  if (test_device() == Device::kCuda) expect_right({.bias = true, .rounded_bias = true});
}

TEST(GemmWithoutRows, HasNothingToDo) {
  const MatrixOperand a(4, 4, DType::kF32), b(4, 4, DType::kF32), c(4, 4, DType::kF32);
  EXPECT_NO_THROW(
      gemm(test_context(), {.a = a.view().row_range(0, 0), .b = b.view(), .c = c.view().row_range(0, 0)}));
}

}  // namespace
}  // namespace ventris::testing
