#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "backend/cpu_kernels.h"
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
};

struct ChainOperands {
  ChainOperands(int64_t m, int64_t n, int64_t k, const ChainForm& form)
      : form(form),
        depth(k),
        a(Buffer::random(form.transpose_a ? k : m, form.transpose_a ? m : k, DType::kF32, 1)),
        b(Buffer::random(form.transpose_b ? n : k, form.transpose_b ? k : n, DType::kF32, 2)),
        before(Buffer::random(m, n, DType::kF32, 3)),
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

  float expected(int64_t row, int64_t col) {
    float sum = form.accumulate ? before.view().row<float>(row)[col] : 0.0F;
    for (int64_t p = 0; p < depth; ++p) {
      const float x = form.transpose_a ? a.view().row<float>(p)[row] : a.view().row<float>(row)[p];
      const float y = form.transpose_b ? b.view().row<float>(col)[p] : b.view().row<float>(p)[col];
      sum = std::fma(x, y, sum);
    }
    if (form.bias) sum += bias.view().as<float>()[col];
    return form.relu ? std::max(sum, 0.0F) : sum;
  }

  ChainForm form;
  int64_t depth;
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
    for (int64_t col = 0; col < n; ++col)
      different += o.c.view().row<float>(row)[col] != o.expected(row, col);
  }
  EXPECT_EQ(different, 0) << m << " x " << n << " x " << k << (form.transpose_a ? " a^T" : "")
                          << (form.transpose_b ? " b^T" : "") << (form.accumulate ? " accumulated" : "");
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
}

}  // namespace
}  // namespace ventris
