// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <tuple>

#include "backend/cpu_kernels.h"
#include "tests/support/device_buffer.h"

namespace ventris {
namespace {

using testing::Buffer;

struct SparseForm {
  bool transpose_a = false;
  bool transpose_b = false;
  bool bias = false;
  bool relu = false;
  bool accumulate = false;
  DType dtype = DType::kF32;  // of b, and of a but with wide_a
  DType c_dtype = DType::kF32;
  bool b_is_sparse = false;
  bool wide_a = false;  // a of f32
};

void make_sparse(Buffer& x, double density) {
  std::mt19937 generator(7);
  for (int64_t i = 0; i < x.size(); ++i) {
    if (std::generate_canonical<double, 32>(generator) < density) continue;
    x.set(i, i % 3 == 0 ? -0.0 : 0.0);
  }
}

/// A product one of whose factors has few elements other than zero.
struct SparseOperands {
  SparseOperands(int64_t m, int64_t n, int64_t k, const SparseForm& form, double density = 0.1)
      : form(form),
        depth(k),
        a(Buffer::random(form.transpose_a ? k : m, form.transpose_a ? m : k,
                         form.wide_a ? DType::kF32 : form.dtype, 1)),
        b(Buffer::random(form.transpose_b ? n : k, form.transpose_b ? k : n, form.dtype, 2)),
        before(Buffer::random(m, n, form.c_dtype, 3)),
        bias(Buffer::random(1, n, DType::kF32, 4)) {
    make_sparse(form.b_is_sparse ? b : a, density);
  }

  GemmArgs args(Buffer& c) const {
    return {.a = a.view(),
            .b = b.view(),
            .c = c.view(),
            .transpose_a = form.transpose_a,
            .transpose_b = form.transpose_b,
            .bias = form.bias ? bias.view() : ConstTensor{},
            .relu = form.relu,
            .accumulate = form.accumulate};
  }

  /// The chain with all its terms, or without those of a zero of a.
  float expected(int64_t row, int64_t col, bool skips_zeros = false) const {
    float sum = form.accumulate ? static_cast<float>(before.get(row, col)) : 0.0F;
    for (int64_t p = 0; p < depth; ++p) {
      const double x = form.transpose_a ? a.get(p, row) : a.get(row, p);
      const double y = form.transpose_b ? b.get(col, p) : b.get(p, col);
      if (x == 0.0 && skips_zeros) continue;
      sum = std::fma(static_cast<float>(x), static_cast<float>(y), sum);
    }
    if (form.bias) sum += static_cast<float>(bias.get(col));
    if (form.relu && sum < 0.0F) sum = 0.0F;
    return form.c_dtype == DType::kBF16 ? static_cast<float>(BF16(sum)) : sum;
  }

  SparseForm form;
  int64_t depth;
  Buffer a;
  Buffer b;
  Buffer before;
  Buffer bias;
};

bool have_same_bits(float x, float y) {
  return std::memcmp(&x, &y, sizeof(x)) == 0 || (std::isnan(x) && std::isnan(y));
}

int64_t different(const SparseOperands& o, const Buffer& c) {
  const ConstTensor view = c.view();
  int64_t count = 0;
  for (int64_t row = 0; row < view.rows; ++row) {
    for (int64_t col = 0; col < view.cols; ++col) {
      count += have_same_bits(static_cast<float>(c.get(row, col)), o.expected(row, col)) ? 0 : 1;
    }
  }
  return count;
}

void expect_all_terms(const SparseOperands& o, int threads) {
  Context context({.threads = threads});
  Buffer c = o.before;
  ASSERT_TRUE(cpu_kernels().sparse_gemm(context, o.args(c)));
  EXPECT_EQ(different(o, c), 0) << c.view().rows << " x " << c.view().cols << " x " << o.depth
                                << (o.form.transpose_a ? " a^T" : "") << (o.form.transpose_b ? " b^T" : "")
                                << (o.form.accumulate ? " accumulated" : "");
}

TEST(SparseGemm, HasTheBitsOfAllMultiplications) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        SparseForm form{.transpose_a = transpose_a, .transpose_b = transpose_b, .dtype = dtype};
        expect_all_terms(SparseOperands(130, 67, 301, form), 2);
        form.accumulate = true;
        expect_all_terms(SparseOperands(37, 128, 515, form), 1);
        form.c_dtype = dtype;
        expect_all_terms(SparseOperands(100, 128, 261, form), 3);
      }
    }
  }
}

TEST(SparseGemm, EitherOfTwoFactorsOfDifferentTypesMayBeTheSparseOne) {
  SparseForm form{.dtype = DType::kBF16, .wide_a = true};
  for (const bool transpose_a : {false, true}) {
    for (const DType c_dtype : {DType::kF32, DType::kBF16}) {
      form.transpose_a = transpose_a;
      form.c_dtype = c_dtype;
      expect_all_terms(SparseOperands(130, 67, 301, form), 2);
    }
  }
  form.c_dtype = DType::kF32;
  form.b_is_sparse = form.accumulate = true;
  expect_all_terms(SparseOperands(100, 257, 2100, form), 1);
}

// The depth of a list depends on the share of zeros.
TEST(SparseGemm, ListsOfAnyDepthHaveTheBitsOfAllMultiplications) {
  for (const double density : {0.3, 0.07, 0.01}) {
    expect_all_terms(SparseOperands(50, 128, 700, {}, density), 1);
    expect_all_terms(SparseOperands(50, 256, 700, {.transpose_a = true, .accumulate = true}, density), 2);
  }
}

// More than is packed or listed at a time, by depth, by columns and by rows.
TEST(SparseGemm, ChainsGoOnFromPartToPart) {
  expect_all_terms(SparseOperands(9, 600, 4500, {.bias = true, .relu = true}), 1);
  expect_all_terms(
      SparseOperands(9, 600, 4000, {.bias = true, .dtype = DType::kBF16, .c_dtype = DType::kBF16}), 2);
  expect_all_terms(SparseOperands(500, 70, 300, {.transpose_a = true, .accumulate = true}), 4);
}

TEST(SparseGemm, TheSecondFactorOfAGradientOfWeightsMayBeTheSparseOne) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    SparseForm form{.transpose_a = true, .dtype = dtype, .b_is_sparse = true};
    expect_all_terms(SparseOperands(67, 130, 301, form), 2);
    form.accumulate = true;
    expect_all_terms(SparseOperands(100, 257, 2100, form), 1);
  }
}

// A sum of terms that are too small for f32 is a zero with a sign, which a term of zero may change.
TEST(SparseGemm, ZerosHaveTheSignOfAllTerms) {
  for (const bool accumulate : {false, true}) {
    SparseOperands o(130, 67, 301, {.accumulate = accumulate}, 0.02);
    for (int64_t i = 0; i < o.a.size(); ++i) o.a.set(i, o.a.get(i) * 1e-30);
    for (int64_t i = 0; i < o.b.size(); ++i) o.b.set(i, o.b.get(i) * 1e-30);
    for (int64_t i = 0; i < o.before.size(); ++i) o.before.set(i, i % 2 == 0 ? -0.0 : 0.0);
    int64_t changed = 0;
    for (int64_t i = 0; i < 67; ++i)
      changed += have_same_bits(o.expected(0, i), o.expected(0, i, true)) ? 0 : 1;
    ASSERT_GT(changed, 0);
    expect_all_terms(o, 2);
  }
}

TEST(SparseGemm, LeavesTheRestToOthers) {
  Context context({.threads = 1});
  const SparseOperands full(130, 67, 301, {}, 0.9);
  const SparseOperands small(13, 6, 30, {});
  for (const SparseOperands* o : {&full, &small}) {
    Buffer c = o->before;
    EXPECT_FALSE(cpu_kernels().sparse_gemm(context, o->args(c)));
    EXPECT_EQ(std::memcmp(c.view().data, o->before.view().data, static_cast<size_t>(c.size()) * 4), 0);
  }
}

// Zero times infinity is not zero.
TEST(SparseGemm, FactorsThatAreNotFiniteAreMultipliedByZerosToo) {
  for (const float value :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Context context({.threads = 1});
    SparseOperands o(130, 67, 301, {});
    o.b.set(40 * 67 + 5, value);
    Buffer c = o.before;
    cpu_kernels().chained_gemm(context, o.args(c));
    EXPECT_EQ(different(o, c), 0);
    EXPECT_TRUE(std::isnan(c.get(0, 5)) || std::isinf(c.get(0, 5)));
  }
}

}  // namespace
}  // namespace ventris
