// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/layer_norm.h"

#include <gtest/gtest.h>

#include "tests/support/compare.h"
#include "tests/support/finite_difference.h"

namespace ventris {
namespace {

using testing::Buffer;
const DropoutPosition kPosition = {.step = 3, .row_base = 7};

/// One call forward and one backward in f64 with all that they read and write.
struct NormProblem {
  NormProblem(int64_t rows, int64_t d)
      : x(Buffer::random(rows, d, DType::kF64, 1)),
        residual(Buffer::random(rows, d, DType::kF64, 2)),
        gamma(Buffer::random(1, d, DType::kF64, 3)),
        beta(Buffer::random(1, d, DType::kF64, 4)),
        d_y(Buffer::random(rows, d, DType::kF64, 5)),
        d_sum_in(Buffer::random(rows, d, DType::kF64, 6)),
        mean(1, rows, DType::kF64),
        rstd(1, rows, DType::kF64),
        sum(rows, d, DType::kF64),
        y(sum),
        d_residual(sum),
        d_x(sum),
        d_gamma(1, d, DType::kF64),
        d_beta(d_gamma),
        d_bias(d_gamma) {}

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

  Context context{{.scratch_bytes = 1 << 16}};
  DropoutKey key = {.rate = 0.3F, .seed = 99, .place = 0x200, .position = &kPosition};
  Buffer x, residual, gamma, beta, d_y, d_sum_in;
  Buffer mean, rstd, sum, y;
  Buffer d_residual, d_x, d_gamma, d_beta, d_bias;
};

TEST(LayerNorm, BackwardMatchesFiniteDifferences) {
  for (const auto& [rows, d] : {std::pair{1, 5}, {3, 7}, {5, 33}}) {
    NormProblem p(rows, d);
    // The loss reads y and, as pre-norm does, sum.
    const auto loss = [&] {
      layer_norm_forward(p.context, p.forward_args());
      return testing::dot(p.y, p.d_y) + testing::dot(p.sum, p.d_sum_in);
    };
    loss();
    layer_norm_backward(p.context, p.backward_args());
    testing::check_gradient("x", loss, p.x, p.d_x);
    testing::check_gradient("residual", loss, p.residual, p.d_residual);
    testing::check_gradient("gamma", loss, p.gamma, p.d_gamma);
    testing::check_gradient("beta", loss, p.beta, p.d_beta);
    // The bias of the layer before is added to every row of x.
    Buffer bias(1, d, DType::kF64);
    const Buffer x = p.x;
    const auto biased_loss = [&] {
      for (int64_t i = 0; i < x.size(); ++i) p.x.set(i, x.get(i) + bias.get(i % bias.size()));
      return loss();
    };
    testing::check_gradient("bias", biased_loss, bias, p.d_bias);
  }
}

/// Calls with each of the fields one column too narrow, which must be refused by name.
template <typename Args, typename... Fields>
void expect_shapes_checked(void (*run)(Context&, const Args&), Context& context, const Args& args,
                           Fields... fields) {
  const auto expect_checked = [&](const auto& field) {
    Args wrong = args;
    --(wrong.*field.second).cols;
    try {
      run(context, wrong);
      ADD_FAILURE() << field.first << " of another shape was taken";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(std::string(field.first) + " is ["), std::string::npos)
          << error.what();
    }
  };
  (expect_checked(fields), ...);
}

TEST(LayerNorm, WrongShapesAreNamed) {
  NormProblem p(4, 8);
  using F = LayerNormForwardArgs;
  expect_shapes_checked(layer_norm_forward, p.context, p.forward_args(), std::pair("x", &F::x),
                        std::pair("gamma", &F::gamma), std::pair("beta", &F::beta), std::pair("sum", &F::sum),
                        std::pair("mean", &F::mean), std::pair("rstd", &F::rstd), std::pair("y", &F::y));
  using B = LayerNormBackwardArgs;
  expect_shapes_checked(
      layer_norm_backward, p.context, p.backward_args(), std::pair("d_sum_in", &B::d_sum_in),
      std::pair("sum", &B::sum), std::pair("mean", &B::mean), std::pair("rstd", &B::rstd),
      std::pair("gamma", &B::gamma), std::pair("d_residual", &B::d_residual), std::pair("d_x", &B::d_x),
      std::pair("d_gamma", &B::d_gamma), std::pair("d_beta", &B::d_beta), std::pair("d_bias", &B::d_bias));
}

TEST(LayerNorm, BackwardNeedsDXForDropoutAndTheBias) {
  NormProblem p(4, 8);
  LayerNormBackwardArgs args = p.backward_args();
  args.d_x = {};
  EXPECT_THROW(layer_norm_backward(p.context, args), Error);
  args.d_bias = {};
  EXPECT_THROW(layer_norm_backward(p.context, args), Error);
  args.dropout = {};
  layer_norm_forward(p.context, p.forward_args());
  layer_norm_backward(p.context, args);
  args.d_bias = p.d_bias.view();
  EXPECT_THROW(layer_norm_backward(p.context, args), Error);
}

}  // namespace
}  // namespace ventris
