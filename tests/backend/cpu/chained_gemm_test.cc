// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "backend/cpu/kernel_table.h"
#include "backend/ops/gemm.h"
#include "tests/support/device_buffer.h"

namespace ventris {
namespace {

using testing::Buffer;

struct ChainForm {
  bool transpose_a = false;
  bool transpose_b = false;
  bool bias = false;
  bool relu = false;
  bool accumulate = false;
  DType dtype = DType::kF32;  // of b, and of a but with wide_a
  DType c_dtype = DType::kF32;
  bool wide_a = false;  // a of f32
};

struct ChainOperands {
  ChainOperands(int64_t m, int64_t n, int64_t k, const ChainForm& form)
      : form(form),
        depth(k),
        a_cols(form.transpose_a ? m : k),
        a(Buffer::random(form.transpose_a ? k : m, a_cols, form.wide_a ? DType::kF32 : form.dtype, 1)),
        b(Buffer::random(form.transpose_b ? n : k, form.transpose_b ? k : n, form.dtype, 2)),
        before(Buffer::random(m, n, form.c_dtype, 3)),
        c(before),
        bias(Buffer::random(1, n, DType::kF32, 4)) {}

  GemmArgs args() {
    return {.a = a.view(),
            .b = b.view(),
            .c = c.view(),
            .transpose_a = form.transpose_a,
            .transpose_b = form.transpose_b,
            .bias = form.bias ? ConstTensor(bias.view()) : ConstTensor{},
            .relu = form.relu,
            .accumulate = form.accumulate};
  }

  double expected(int64_t row, int64_t col) const {
    auto sum = form.accumulate ? static_cast<float>(before.get(row, col)) : 0.0F;
    for (int64_t p = 0; p < depth; ++p) {
      const double x = form.transpose_a ? a.get(p, row) : a.get(row, p);
      const double y = form.transpose_b ? b.get(col, p) : b.get(p, col);
      sum = std::fma(static_cast<float>(x), static_cast<float>(y), sum);
    }
    if (form.bias) sum += static_cast<float>(bias.get(0, col));
    if (form.relu) sum = std::max(sum, 0.0F);
    return form.c_dtype == DType::kBF16 ? static_cast<float>(BF16(sum)) : sum;
  }

  ChainForm form;
  int64_t depth;
  int64_t a_cols;
  Buffer a;
  Buffer b;
  Buffer before;
  Buffer c;
  Buffer bias;
};

void expect_chains(int64_t m, int64_t n, int64_t k, const ChainForm& form, int threads) {
  Context context({.threads = threads});
  ChainOperands o(m, n, k, form);
  cpu_kernels().chained_gemm(context, o.args());
  int64_t different = 0;
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t col = 0; col < n; ++col) different += o.c.get(row, col) != o.expected(row, col);
  }
  EXPECT_EQ(different, 0) << m << " x " << n << " x " << k << (form.transpose_a ? " a^T" : "")
                          << (form.transpose_b ? " b^T" : "") << (form.accumulate ? " accumulated" : "")
                          << (form.wide_a ? ", f32 and " : ", ") << name_of(form.dtype) << " to "
                          << name_of(form.c_dtype);
}

TEST(ChainedGemm, EveryElementIsOneChainInOrderOfDepth) {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      const ChainForm form{.transpose_a = transpose_a, .transpose_b = transpose_b};
      for (const auto& [m, n, k] : {std::tuple{1, 1, 1}, {2, 17, 5}, {33, 65, 67}, {100, 40, 300}}) {
        expect_chains(m, n, k, form, 2);
        expect_chains(m, n, k, {.transpose_a = transpose_a, .transpose_b = transpose_b, .accumulate = true},
                      1);
      }
    }
  }
}

// More than is packed at a time, by depth, by columns and by rows.
TEST(ChainedGemm, ChainsGoOnFromPartToPart) {
  expect_chains(7, 2061, 1077, {.bias = true, .relu = true}, 2);
  expect_chains(9, 2100, 530, {.transpose_b = true, .bias = true}, 1);
  expect_chains(523, 41, 1500, {.transpose_a = true, .accumulate = true}, 2);
  expect_chains(1100, 70, 300, {.transpose_a = true}, 4);
  expect_chains(1100, 150, 303, {.transpose_a = true, .accumulate = true}, 1);
}

// A processor without products of bf16 widens factors where it copies them, and rounds each element once.
TEST(ChainedGemm, WidensBF16AndRoundsOnce) {
  for (const DType c_dtype : {DType::kF32, DType::kBF16}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        ChainForm form{.transpose_a = transpose_a,
                       .transpose_b = transpose_b,
                       .dtype = DType::kBF16,
                       .c_dtype = c_dtype};
        for (const auto& [m, n, k] : {std::tuple{1, 1, 1}, {3, 19, 9}, {200, 67, 129}, {1700, 40, 24}})
          expect_chains(m, n, k, form, 2);
        form.accumulate = true;
        expect_chains(37, 1100, 530, form, 3);
        form.accumulate = false;
        form.bias = form.relu = true;
        expect_chains(205, 1031, 70, form, 1);
      }
    }
  }
}

// As gradients of logits in f32 are multiplied by a table and by activations in bf16.
TEST(ChainedGemm, AFactorOfF32BesideOneOfBF16IsNotRounded) {
  for (const auto& [m, n, k] : {std::tuple{1, 1, 1}, {5, 130, 1077}, {300, 64, 700}, {530, 1100, 40}}) {
    for (const DType c_dtype : {DType::kF32, DType::kBF16}) {
      ChainForm form{.dtype = DType::kBF16, .c_dtype = c_dtype, .wide_a = true};
      expect_chains(m, n, k, form, 2);
      form.transpose_b = true;
      expect_chains(m, n, k, form, 1);
    }
  }
  for (const auto& [m, n, k] :
       {std::tuple{517, 64, 200}, {30, 1100, 300}, {700, 131, 530}, {1050, 128, 1040}}) {
    for (const bool accumulate : {false, true}) {
      const ChainForm form{
          .transpose_a = true, .accumulate = accumulate, .dtype = DType::kBF16, .wide_a = true};
      expect_chains(m, n, k, form, 1);
      expect_chains(m, n, k, form, 2);
    }
  }
}

}  // namespace
}  // namespace ventris
