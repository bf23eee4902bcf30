// SPDX-License-Identifier: Apache-2.0
#include "backend/layer_norm.h"

#include <gtest/gtest.h>

#include "tests/support/compare.h"
#include "tests/support/finite_difference.h"

namespace ventris {
namespace {

using testing::Buffer;
using testing::kAllDTypes;

const DropoutPosition kNormPosition = {.step = 3, .row_base = 7};

/// One call forward and one backward with all that they read and write.
struct NormProblem {
  NormProblem(int64_t rows, int64_t d, DType dtype, float rate)
      : x(Buffer::random(rows, d, dtype, 1)),
        residual(Buffer::random(rows, d, dtype, 2)),
        gamma(Buffer::random(1, d, master_dtype(dtype), 3)),
        beta(Buffer::random(1, d, master_dtype(dtype), 4)),
        d_y(Buffer::random(rows, d, dtype, 5)),
        d_sum_in(Buffer::random(rows, d, dtype, 6)),
        sum(rows, d, dtype),
        mean(1, rows, master_dtype(dtype)),
        rstd(1, rows, master_dtype(dtype)),
        y(rows, d, dtype),
        d_residual(rows, d, dtype),
        d_x(rows, d, dtype),
        d_gamma(1, d, master_dtype(dtype)),
        d_beta(1, d, master_dtype(dtype)),
        d_bias(1, d, master_dtype(dtype)) {
    key = {.rate = rate, .seed = 99, .place = 0x200, .position = &kNormPosition};
  }

  LayerNormForwardArgs forward_args() {
    return {.x = x.view(),
            .residual = residual.view(),
            .dropout = key,
            .gamma = gamma.view(),
            .beta = beta.view(),
            .sum = sum.view(),
            .mean = mean.view(),
            .rstd = rstd.view(),
            .y = y.view()};
  }
  LayerNormBackwardArgs backward_args() {
    return {.d_y = d_y.view(),
            .d_sum_in = d_sum_in.view(),
            .sum = sum.view(),
            .mean = mean.view(),
            .rstd = rstd.view(),
            .gamma = gamma.view(),
            .dropout = key,
            .d_residual = d_residual.view(),
            .d_x = d_x.view(),
            .d_gamma = d_gamma.view(),
            .d_beta = d_beta.view(),
            .d_bias = d_bias.view()};
  }
  void forward(int threads = 1) {
    Context context({.threads = threads, .scratch_bytes = 1 << 16});
    layer_norm_forward(context, forward_args());
  }
  void backward(int threads = 1) {
    Context context({.threads = threads, .scratch_bytes = 1 << 16});
    layer_norm_backward(context, backward_args());
  }

  int64_t rows;
  int64_t d;
  DType dtype;
  DropoutKey key;
  Buffer x, residual, gamma, beta, d_y, d_sum_in;
  Buffer sum, mean, rstd, y;
  Buffer d_residual, d_x, d_gamma, d_beta, d_bias;
};

struct Size {
  int64_t rows;
  int64_t d;
};
TEST(LayerNorm, BackwardMatchesFiniteDifferences) {
  for (const Size& size : {Size{1, 5}, Size{3, 7}, Size{5, 33}}) {
    NormProblem p(size.rows, size.d, DType::kF64, 0.3F);
    // The loss reads y and, as pre-norm does, sum.
    const auto loss = [&] {
      p.forward();
      return testing::dot(p.y, p.d_y) + testing::dot(p.sum, p.d_sum_in);
    };
    loss();
    p.backward();
    testing::check_gradient("x", loss, p.x, p.d_x);
    testing::check_gradient("residual", loss, p.residual, p.d_residual);
    testing::check_gradient("gamma", loss, p.gamma, p.d_gamma);
    testing::check_gradient("beta", loss, p.beta, p.d_beta);
    // The bias of the layer before is added to every row of x.
    Buffer bias(1, size.d, DType::kF64);
    const Buffer x = p.x;
    const auto biased_loss = [&] {
      for (int64_t i = 0; i < x.size(); ++i) p.x.set(i, x.get(i) + bias.get(i % size.d));
      return loss();
    };
    testing::check_gradient("bias", biased_loss, bias, p.d_bias);
  }
}

TEST(LayerNorm, BitsDoNotDependOnTheNumberOfThreads) {
  for (const DType dtype : kAllDTypes) {
    NormProblem one(331, 67, dtype, 0.1F);
    one.forward();
    one.backward();
    for (const int threads : {2, 3}) {
      NormProblem many(331, 67, dtype, 0.1F);
      many.forward(threads);
      many.backward(threads);
      testing::expect_same_bits("y", one.y, many.y);
      testing::expect_same_bits("d_residual", one.d_residual, many.d_residual);
      testing::expect_same_bits("d_x", one.d_x, many.d_x);
      testing::expect_same_bits("d_gamma", one.d_gamma, many.d_gamma);
      testing::expect_same_bits("d_beta", one.d_beta, many.d_beta);
      testing::expect_same_bits("d_bias", one.d_bias, many.d_bias);
    }
  }
}

TEST(LayerNorm, RowHasTheSameBitsAloneAsAmongOthers) {
  Context context({.scratch_bytes = 1 << 16});
  for (const DType dtype : kAllDTypes) {
    constexpr int64_t kRows = 11;
    NormProblem all(kRows, 67, dtype, 0.1F);
    all.forward();
    NormProblem alone(kRows, 67, dtype, 0.1F);
    for (int64_t r = 0; r < kRows; ++r) {
      DropoutPosition position = kNormPosition;
      position.row_base += static_cast<uint32_t>(r);
      LayerNormForwardArgs args = alone.forward_args();
      args.dropout.position = &position;
      args.x = args.x.row_range(r, 1);
      args.residual = args.residual.row_range(r, 1);
      for (Tensor* rows : {&args.sum, &args.y}) *rows = rows->row_range(r, 1);
      for (Tensor* number : {&args.mean, &args.rstd}) *number = number->col_range(r, 1);
      layer_norm_forward(context, args);
    }
    testing::expect_same_bits("sum", all.sum, alone.sum);
    testing::expect_same_bits("mean", all.mean, alone.mean);
    testing::expect_same_bits("rstd", all.rstd, alone.rstd);
    testing::expect_same_bits("y", all.y, alone.y);
  }
}

TEST(LayerNorm, MemoryMayBeSharedWhereTheContractSaysSo) {
  Context context({.scratch_bytes = 1 << 16});
  for (const DType dtype : kAllDTypes) {
    for (const float rate : {0.0F, 0.3F}) {
      NormProblem apart(17, 41, dtype, rate);
      apart.forward();
      apart.backward();
      NormProblem shared(17, 41, dtype, rate);
      layer_norm_forward(context, {.x = shared.x.view(),
                                   .residual = shared.residual.view(),
                                   .dropout = shared.key,
                                   .gamma = shared.gamma.view(),
                                   .beta = shared.beta.view(),
                                   .sum = shared.x.view(),
                                   .mean = shared.mean.view(),
                                   .rstd = shared.rstd.view(),
                                   .y = shared.y.view()});
      testing::expect_same_bits("sum", apart.sum, shared.x);
      testing::expect_same_bits("y", apart.y, shared.y);
      for (const bool over_d_y : {true, false}) {
        Buffer d_y = apart.d_y;
        Buffer d_sum_in = apart.d_sum_in;
        const Tensor d_residual = over_d_y ? d_y.view() : d_sum_in.view();
        Buffer d_x(17, 41, dtype);
        Buffer ignored(3, 41, master_dtype(dtype));
        layer_norm_backward(context, {.d_y = d_y.view(),
                                      .d_sum_in = d_sum_in.view(),
                                      .sum = shared.x.view(),
                                      .mean = shared.mean.view(),
                                      .rstd = shared.rstd.view(),
                                      .gamma = shared.gamma.view(),
                                      .dropout = shared.key,
                                      .d_residual = d_residual,
                                      .d_x = rate == 0.0F ? d_residual : d_x.view(),
                                      .d_gamma = ignored.view().row_range(0, 1),
                                      .d_beta = ignored.view().row_range(1, 1),
                                      .d_bias = ignored.view().row_range(2, 1)});
        testing::expect_same_bits("d_residual", apart.d_residual, over_d_y ? d_y : d_sum_in);
        if (rate != 0.0F) testing::expect_same_bits("d_x", apart.d_x, d_x);
      }
    }
  }
}

/// Calls with each of the fields one column too narrow, which must be refused by name.
template <typename Args, typename... Fields>
void expect_shapes_checked(void (*run)(Context&, const Args&), const Args& args, Fields... fields) {
  Context context({.scratch_bytes = 1 << 16});
  const auto expect_checked = [&](const auto& field) {
    Args wrong = args;
    --(wrong.*field.second).cols;
    try {
      run(context, wrong);
      ADD_FAILURE() << field.first << " of another shape was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kInternal);
      EXPECT_NE(std::string(error.what()).find(std::string(field.first) + " is ["), std::string::npos)
          << error.what();
    }
  };
  (expect_checked(fields), ...);
}

TEST(LayerNorm, WrongShapesAreNamed) {
  NormProblem p(4, 8, DType::kF32, 0.0F);
  using F = LayerNormForwardArgs;
  expect_shapes_checked(layer_norm_forward, p.forward_args(), std::pair("x", &F::x),
                        std::pair("gamma", &F::gamma), std::pair("beta", &F::beta), std::pair("sum", &F::sum),
                        std::pair("mean", &F::mean), std::pair("rstd", &F::rstd), std::pair("y", &F::y));
  using B = LayerNormBackwardArgs;
  expect_shapes_checked(layer_norm_backward, p.backward_args(), std::pair("d_sum_in", &B::d_sum_in),
                        std::pair("sum", &B::sum), std::pair("mean", &B::mean), std::pair("rstd", &B::rstd),
                        std::pair("gamma", &B::gamma), std::pair("d_residual", &B::d_residual),
                        std::pair("d_x", &B::d_x), std::pair("d_gamma", &B::d_gamma),
                        std::pair("d_beta", &B::d_beta), std::pair("d_bias", &B::d_bias));
}

TEST(LayerNorm, BackwardNeedsDXForDropoutAndTheBias) {
  NormProblem p(4, 8, DType::kF32, 0.3F);
  Context context({.scratch_bytes = 1 << 16});
  LayerNormBackwardArgs args = p.backward_args();
  args.d_x = {};
  EXPECT_THROW(layer_norm_backward(context, args), Error);
  args.d_bias = {};
  EXPECT_THROW(layer_norm_backward(context, args), Error);
  args.dropout = {};
  p.forward();
  layer_norm_backward(context, args);
  args.d_bias = p.d_bias.view();
  EXPECT_THROW(layer_norm_backward(context, args), Error);
}

}  // namespace
}  // namespace ventris
