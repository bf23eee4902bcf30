// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/layer_norm.h"

#include "backend/ops/column_sums.h"
#include "tests/support/dropout_mask.h"
#include "tests/support/operands.h"
#include "tests/support/operation_case.h"

namespace ventris::testing {
namespace {

class LayerNorm : public OperationTest {
 protected:
  LayerNorm() {
    key_ = {.rate = GetParam().rate, .seed = 0x123456789ABCULL, .place = 0x200, .position = &kPosition};
    device_key_ = key_;
    device_key_.position = position_.data();
  }

  Buffer matrix(uint32_t seed) const { return Buffer::random(size_.rows, size_.cols, dtype_, seed); }
  Buffer vector(uint32_t seed) const { return Buffer::random(1, size_.cols, master_dtype(dtype_), seed); }
  Buffer statistics(uint32_t seed, double spread) const {
    return Buffer::random(1, size_.rows, master_dtype(dtype_), seed, spread);
  }

  static constexpr DropoutPosition kPosition = {.step = 3, .row_base = 7};
  const ArrayOperand<DropoutPosition> position_{{kPosition}};
  const DType dtype_ = GetParam().dtype;
  const Size size_ = GetParam().size;
  DropoutKey key_, device_key_;
};

VENTRIS_FOR_CASES(LayerNorm, cases(test_dtypes(),
                                   {{1, 1},
                                    {3, 7, 2},
                                    {37, 64, 8},
                                    {71, 229},
                                    {331, 67},
                                    {45, 504},
                                    {40, 520},
                                    {67, 1024},
                                    {9, 1032},
                                    {3, 4093, 3},
                                    {2, 4104},
                                    {1, 16384}},
                                   {0.0F, 0.3F}));

/// In another context also with the sum in the place of x; and each row alone has the same bits.
TEST_P(LayerNorm, ForwardMatchesTheReference) {
  const auto& [rows, cols, gap] = size_;
  const Buffer x = matrix(1), residual = matrix(2), gamma = vector(3), beta = vector(4);
  const MatrixOperand device_x(x, gap), device_residual(residual, gap), device_gamma(gamma),
      device_beta(beta);
  struct Results {
    MatrixOperand sum, y, mean, rstd;
  };
  const auto fresh = [&] {
    return Results{{size_.rows, size_.cols, dtype_, size_.gap},
                   {size_.rows, size_.cols, dtype_, size_.gap},
                   {1, size_.rows, master_dtype(dtype_)},
                   {1, size_.rows, master_dtype(dtype_)}};
  };
  for (const bool with_x : {true, false}) {
    if (!with_x && key_.active()) continue;
    SCOPED_TRACE(with_x ? "with x" : "without x");
    const auto run = [&](Context& context, int64_t first, int64_t count, const Tensor& of_x,
                         const Tensor& sum, const Results& to) {
      const ArrayOperand<DropoutPosition> position(
          {{.step = kPosition.step, .row_base = kPosition.row_base + static_cast<uint32_t>(first)}});
      DropoutKey key = with_x ? key_ : DropoutKey{};
      key.position = position.data();
      layer_norm_forward(context, {.x = with_x ? of_x.row_range(first, count) : Tensor{},
                                   .residual = device_residual.view().row_range(first, count),
                                   .dropout = key,
                                   .gamma = device_gamma.view(),
                                   .beta = device_beta.view(),
                                   .sum = with_x ? sum.row_range(first, count) : Tensor{},
                                   .mean = to.mean.view().col_range(first, count),
                                   .rstd = to.rstd.view().col_range(first, count),
                                   .y = to.y.view().row_range(first, count)});
      synchronize(context);
    };
    const Results got = fresh(), again = fresh(), alone = fresh();
    const MatrixOperand &sum = got.sum, &y = got.y, &mean = got.mean, &rstd = got.rstd;
    run(test_context(), 0, rows, device_x.view(), sum.view(), got);
    const MatrixOperand in_place(x, gap);
    run(other_context(), 0, rows, in_place.view(), in_place.view(), again);
    if (with_x) expect_same_bits("sum in place", in_place, sum);
    expect_same_bits("y again", again.y, y);
    if (rows <= 12) {
      for (int64_t r = 0; r < rows; ++r) run(test_context(), r, 1, device_x.view(), alone.sum.view(), alone);
      if (with_x) expect_same_bits("sum of rows alone", alone.sum, sum);
      expect_same_bits("y of rows alone", alone.y, y);
      expect_same_bits("mean of rows alone", alone.mean, mean);
      expect_same_bits("rstd of rows alone", alone.rstd, rstd);
    }
    if (with_x) {
      std::vector<double> expected;
      for (int64_t i = 0; i < x.size(); ++i)
        expected.push_back(residual.get(i) + dropout_mask(key_, i / cols, i % cols) * x.get(i));
      expect_close("sum", sum, expected, dtype_);
    }
    // The statistics are those of the sum as rounded.
    const Buffer rounded = with_x ? sum.get() : residual;
    const auto n = static_cast<double>(cols);
    std::vector<double> expected_mean, expected_rstd, expected_y;
    for (int64_t r = 0; r < rows; ++r) {
      double total = 0.0;
      double squares = 0.0;
      for (int64_t c = 0; c < cols; ++c) total += rounded.get(r, c);
      for (int64_t c = 0; c < cols; ++c) squares += std::pow(rounded.get(r, c) - total / n, 2);
      expected_mean.push_back(total / n);
      expected_rstd.push_back(1.0 / std::sqrt(squares / n + static_cast<double>(1e-5F)));
      for (int64_t c = 0; c < cols; ++c) {
        expected_y.push_back(gamma.get(c) * (rounded.get(r, c) - total / n) * expected_rstd.back() +
                             beta.get(c));
      }
    }
    expect_close("mean", mean, expected_mean, master_dtype(dtype_));
    expect_close("rstd", rstd, expected_rstd, master_dtype(dtype_));
    expect_close("y", y, expected_y, dtype_);
  }
}

/// The second time in another context, with sums that wait, and in the memory of d_y or d_sum_in.
TEST_P(LayerNorm, BackwardMatchesTheReferenceAndRepeatsItsBits) {
  const auto& [rows, cols, gap] = size_;
  const Buffer d_y = matrix(1), d_sum_in = matrix(2), sum = matrix(3), gamma = vector(6);
  const Buffer mean = statistics(4, 0.1), rstd = statistics(5, 1.0);
  const MatrixOperand device_d_y(d_y, gap), device_d_sum_in(d_sum_in, gap), device_sum(sum, gap),
      device_gamma(gamma), device_mean(mean), device_rstd(rstd);
  const auto xhat = [&](int64_t r, int64_t c) { return (sum.get(r, c) - mean.get(r)) * rstd.get(r); };
  struct Results {
    MatrixOperand d_residual, d_x, d_gamma, d_beta, d_bias;
  };
  const auto fresh = [&] {
    return Results{{size_.rows, size_.cols, dtype_, size_.gap},
                   {size_.rows, size_.cols, dtype_, size_.gap},
                   MatrixOperand(vector(7)),
                   MatrixOperand(vector(8)),
                   MatrixOperand(vector(9))};
  };
  for (const bool with_x : {true, false}) {  // without it there is no d_x, no d_bias and here no d_sum_in
    if (!with_x && key_.active()) continue;
    SCOPED_TRACE(with_x ? "with x" : "without x");
    const Results first = fresh(), second = fresh();
    const bool over_d_y = !key_.active();
    const MatrixOperand in_place(over_d_y ? d_y : d_sum_in, gap);
    for (const Results* r : {&first, &second}) {
      const bool again = r == &second;
      Context& context = again ? other_context() : test_context();
      const Tensor d_residual = again ? in_place.view() : r->d_residual.view();
      LayerNormBackwardArgs args{.d_y = again && over_d_y ? d_residual : device_d_y.view(),
                                 .sum = device_sum.view(),
                                 .mean = device_mean.view(),
                                 .rstd = device_rstd.view(),
                                 .gamma = device_gamma.view(),
                                 .d_residual = d_residual,
                                 .d_gamma = r->d_gamma.view(),
                                 .d_beta = r->d_beta.view()};
      if (with_x) {
        args.d_sum_in = again && !over_d_y ? d_residual : device_d_sum_in.view();
        args.d_x = again && over_d_y ? d_residual : r->d_x.view();
        args.d_bias = r->d_bias.view();
        args.dropout = device_key_;
      }
      args.sums_later = again;
      layer_norm_backward(context, args);
      complete_column_sums(context);
    }
    const auto n = static_cast<double>(cols);
    std::vector<double> d_residual, d_x;
    std::vector<double> d_gamma = to_doubles(vector(7)), d_beta = to_doubles(vector(8)),
                        d_bias = to_doubles(vector(9));
    for (int64_t r = 0; r < rows; ++r) {
      double g_sum = 0.0;
      double gx_sum = 0.0;
      for (int64_t c = 0; c < cols; ++c) {
        g_sum += gamma.get(c) * d_y.get(r, c);
        gx_sum += gamma.get(c) * d_y.get(r, c) * xhat(r, c);
        d_gamma[static_cast<size_t>(c)] += d_y.get(r, c) * xhat(r, c);
        d_beta[static_cast<size_t>(c)] += d_y.get(r, c);
      }
      for (int64_t c = 0; c < cols; ++c) {
        const double g = gamma.get(c) * d_y.get(r, c);
        d_residual.push_back(rstd.get(r) * (g - g_sum / n - xhat(r, c) * gx_sum / n) +
                             (with_x ? d_sum_in.get(r, c) : 0.0));
        d_x.push_back(dropout_mask(key_, r, c) * d_residual.back());
        d_bias[static_cast<size_t>(c)] += d_x.back();
      }
    }
    expect_close("d_residual", first.d_residual, d_residual, dtype_);
    expect_close("d_gamma", first.d_gamma, d_gamma, dtype_);
    expect_close("d_beta", first.d_beta, d_beta, dtype_);
    expect_same_bits("d_residual again", first.d_residual, in_place);
    expect_same_bits("d_gamma again", first.d_gamma, second.d_gamma);
    expect_same_bits("d_beta again", first.d_beta, second.d_beta);
    if (!with_x) continue;
    expect_close("d_x", first.d_x, d_x, dtype_);
    expect_close("d_bias", first.d_bias, d_bias, dtype_);
    if (!over_d_y) expect_same_bits("d_x again", first.d_x, second.d_x);
    expect_same_bits("d_bias again", first.d_bias, second.d_bias);
  }
}

}  // namespace
}  // namespace ventris::testing
