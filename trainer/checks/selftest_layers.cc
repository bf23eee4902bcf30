// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "backend/apply_dropout.h"
#include "backend/bias_relu.h"
#include "backend/embedding.h"
#include "backend/layer_norm.h"
#include "backend/row_order.h"
#include "backend/swish.h"
#include "trainer/checks/selftest_kernels.h"

namespace ventris {
namespace {

void try_embedding(SelftestRun& run) {
  constexpr int64_t kPositions = 64;
  const int64_t rows = run.layer_rows, d = run.model.d_model, vocab = run.model.padded_vocab();
  const double scale = std::sqrt(static_cast<double>(static_cast<float>(d)));
  // A token in eight is the most frequent one, as in text.
  const auto draw_tokens = [&](Trial& trial) {
    std::vector<int32_t> ids = trial.draw_integers(rows, run.model.vocab_size);
    for (size_t t = 0; t < ids.size(); t += 8) ids[t] = 3;
    return ids;
  };
  std::vector<int32_t> places;
  for (int64_t t = 0; t < rows; ++t) places.push_back(static_cast<int32_t>(t % kPositions));
  run.kernel("embedding_forward", shape_text(vocab, d), run.dtype, [&](Trial& trial) {
    Context& context = trial.context();
    const std::vector<int32_t> ids = draw_tokens(trial);
    const Matrix table = trial.draw(vocab, d, run.dtype, 1.0 / scale);
    const Matrix positions = trial.draw(kPositions, d, DType::kF32);
    const Operand device_table(context, table, run.dtype), device_positions(context, positions, DType::kF32);
    const Operand out(context, rows, d, run.dtype);
    const Numbers device_ids(context, ids), device_places(context, places);
    const TrialDropout dropout(context, run.model.dropout), words(context, 0.1F);
    embedding_forward(context, {.ids = device_ids.data(),
                                .position = device_places.data(),
                                .table = device_table.view(),
                                .positions = device_positions.view(),
                                .scale = static_cast<float>(scale),
                                .zero_start = false,
                                .token_dropout = words.key,
                                .dropout = dropout.key,
                                .out = out.view()});
    Matrix expected(rows, d);
    for (int64_t t = 0; t < rows; ++t) {
      const auto at = static_cast<size_t>(t);
      for (int64_t c = 0; c < d; ++c)
        expected.at(t, c) = dropout.factor(t, c) *
                            (words.factor(t, 0) * scale * table.at(ids[at], c) + positions.at(places[at], c));
    }
    trial.expect("out", out, expected, run.close);
  });
  run.kernel("embedding_backward", shape_text(vocab, d), run.dtype, [&](Trial& trial) {
    Context& context = trial.context();
    const std::vector<int32_t> ids = draw_tokens(trial);
    const Matrix d_out = trial.draw(rows, d, run.dtype);
    Matrix d_table = trial.draw(vocab, d, DType::kF32), d_positions = trial.draw(kPositions, d, DType::kF32);
    const Operand device_d_out(context, d_out, run.dtype), device_d_table(context, d_table, DType::kF32),
        device_d_positions(context, d_positions, DType::kF32);
    const Numbers device_ids(context, ids), device_places(context, places);
    const Numbers id_order(context, order_of_rows(ids)), place_order(context, order_of_rows(places));
    const TrialDropout dropout(context, run.model.dropout), words(context, 0.1F);
    embedding_backward(context, {.ids = device_ids.data(),
                                 .id_order = id_order.data(),
                                 .position = device_places.data(),
                                 .position_order = place_order.data(),
                                 .d_out = device_d_out.view(),
                                 .scale = static_cast<float>(scale),
                                 .zero_start = false,
                                 .token_dropout = words.key,
                                 .dropout = dropout.key,
                                 .d_table = device_d_table.view(),
                                 .d_positions = device_d_positions.view()});
    for (int64_t t = 0; t < rows; ++t) {
      const auto at = static_cast<size_t>(t);
      for (int64_t c = 0; c < d; ++c) {
        const double gradient = dropout.factor(t, c) * d_out.at(t, c);
        d_table.at(ids[at], c) += words.factor(t, 0) * scale * gradient;
        d_positions.at(places[at], c) += gradient;
      }
    }
    trial.expect("d_table", device_d_table, d_table, kCloseSum);
    trial.expect("d_positions", device_d_positions, d_positions, kCloseSum);
  });
}

/// Mean and 1 / sqrt(variance + epsilon) of each row, as f32 numbers.
struct Statistics {
  Statistics(const Matrix& x, double epsilon) : mean(1, x.rows), rstd(1, x.rows) {
    const auto n = static_cast<double>(x.cols);
    for (int64_t r = 0; r < x.rows; ++r) {
      double sum = 0.0, squares = 0.0;
      for (int64_t c = 0; c < x.cols; ++c) sum += x.at(r, c);
      for (int64_t c = 0; c < x.cols; ++c) squares += std::pow(x.at(r, c) - sum / n, 2);
      mean.at(0, r) = static_cast<double>(static_cast<float>(sum / n));
      rstd.at(0, r) = static_cast<double>(static_cast<float>(1.0 / std::sqrt(squares / n + epsilon)));
    }
  }
  Matrix mean, rstd;  // [1, rows]
};

void try_layer_norm(SelftestRun& run) {
  const int64_t rows = run.layer_rows, d = run.model.d_model;
  const auto epsilon = static_cast<double>(run.model.layer_norm_epsilon);
  run.kernel("layer_norm_forward", shape_text(rows, d), run.dtype, [&](Trial& trial) {
    Context& context = trial.context();
    Matrix x = trial.draw(rows, d, run.dtype), residual = trial.draw(rows, d, run.dtype);
    // Some rows of a variance that is about epsilon.
    for (int64_t r = 0; r < rows; r += 8) {
      for (double* row : {x.row(r), residual.row(r)})
        std::for_each(row, row + d, [](double& number) { number *= 0x1p-9; });
    }
    const Matrix gamma = trial.draw(1, d, DType::kF32), beta = trial.draw(1, d, DType::kF32);
    const Operand device_x(context, x, run.dtype), device_residual(context, residual, run.dtype),
        device_gamma(context, gamma, DType::kF32), device_beta(context, beta, DType::kF32);
    const Operand sum(context, rows, d, run.dtype), y(context, rows, d, run.dtype),
        mean(context, 1, rows, DType::kF32), rstd(context, 1, rows, DType::kF32);
    const TrialDropout dropout(context, run.model.dropout);
    layer_norm_forward(context, {.x = device_x.view(),
                                 .residual = device_residual.view(),
                                 .dropout = dropout.key,
                                 .gamma = device_gamma.view(),
                                 .beta = device_beta.view(),
                                 .epsilon = run.model.layer_norm_epsilon,
                                 .sum = sum.view(),
                                 .mean = mean.view(),
                                 .rstd = rstd.view(),
                                 .y = y.view()});
    Matrix expected(rows, d);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < d; ++c)
        expected.at(r, c) = residual.at(r, c) + dropout.factor(r, c) * x.at(r, c);
    }
    const Statistics statistics(expected, epsilon);
    trial.expect("sum", sum, expected, run.close);
    // The statistics of `sum` are those after it was rounded to T.
    trial.expect("mean", mean, statistics.mean, run.close);
    trial.expect("rstd", rstd, statistics.rstd, run.close);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < d; ++c) {
        const double xhat = (expected.at(r, c) - statistics.mean.at(0, r)) * statistics.rstd.at(0, r);
        expected.at(r, c) = gamma.at(0, c) * xhat + beta.at(0, c);
      }
    }
    trial.expect("y", y, expected, run.close);
  });
  run.kernel("layer_norm_backward", shape_text(rows, d), run.dtype, [&](Trial& trial) {
    Context& context = trial.context();
    const Matrix d_y = trial.draw(rows, d, run.dtype), d_sum_in = trial.draw(rows, d, run.dtype);
    const Matrix sum = trial.draw(rows, d, run.dtype), gamma = trial.draw(1, d, DType::kF32);
    const Statistics statistics(sum, epsilon);
    Matrix d_gamma = trial.draw(1, d, DType::kF32), d_beta = trial.draw(1, d, DType::kF32),
           d_bias = trial.draw(1, d, DType::kF32);
    const Operand device_d_y(context, d_y, run.dtype), device_d_sum_in(context, d_sum_in, run.dtype),
        device_sum(context, sum, run.dtype), device_gamma(context, gamma, DType::kF32),
        mean(context, statistics.mean, DType::kF32), rstd(context, statistics.rstd, DType::kF32);
    const Operand d_residual(context, rows, d, run.dtype), d_x(context, rows, d, run.dtype),
        device_d_gamma(context, d_gamma, DType::kF32), device_d_beta(context, d_beta, DType::kF32),
        device_d_bias(context, d_bias, DType::kF32);
    const TrialDropout dropout(context, run.model.dropout);
    layer_norm_backward(context, {.d_y = device_d_y.view(),
                                  .d_sum_in = device_d_sum_in.view(),
                                  .sum = device_sum.view(),
                                  .mean = mean.view(),
                                  .rstd = rstd.view(),
                                  .gamma = device_gamma.view(),
                                  .dropout = dropout.key,
                                  .d_residual = d_residual.view(),
                                  .d_x = d_x.view(),
                                  .d_gamma = device_d_gamma.view(),
                                  .d_beta = device_d_beta.view(),
                                  .d_bias = device_d_bias.view()});
    Matrix expected(rows, d), expected_x(rows, d);
    for (int64_t r = 0; r < rows; ++r) {
      const auto xhat = [&](int64_t c) {
        return (sum.at(r, c) - statistics.mean.at(0, r)) * statistics.rstd.at(0, r);
      };
      double g_sum = 0.0, gx_sum = 0.0;
      for (int64_t c = 0; c < d; ++c) {
        const double g = gamma.at(0, c) * d_y.at(r, c);
        g_sum += g;
        gx_sum += g * xhat(c);
        d_gamma.at(0, c) += d_y.at(r, c) * xhat(c);
        d_beta.at(0, c) += d_y.at(r, c);
      }
      const auto n = static_cast<double>(d);
      for (int64_t c = 0; c < d; ++c) {
        const double centred = gamma.at(0, c) * d_y.at(r, c) - g_sum / n - xhat(c) * gx_sum / n;
        expected.at(r, c) = statistics.rstd.at(0, r) * centred + d_sum_in.at(r, c);
        expected_x.at(r, c) = dropout.factor(r, c) * expected.at(r, c);
        d_bias.at(0, c) += expected_x.at(r, c);
      }
    }
    trial.expect("d_residual", d_residual, expected, run.close);
    trial.expect("d_x", d_x, expected_x, run.close);
    trial.expect("d_gamma", device_d_gamma, d_gamma, kCloseSum);
    trial.expect("d_beta", device_d_beta, d_beta, kCloseSum);
    trial.expect("d_bias", device_d_bias, d_bias, kCloseSum);
  });
}

void try_activations(SelftestRun& run) {
  const int64_t rows = run.layer_rows, n = run.model.d_ff;
  run.kernel("bias_relu_backward", shape_text(rows, n), run.dtype, [&](Trial& trial) {
    Context& context = trial.context();
    const Matrix y = trial.draw(rows, n, run.dtype);
    Matrix expected = trial.draw(rows, n, run.dtype), d_bias = trial.draw(1, n, DType::kF32);
    const Operand device_y(context, y, run.dtype), d_y(context, expected, run.dtype),
        device_d_bias(context, d_bias, DType::kF32);
    bias_relu_backward(context, {.d_y = d_y.view(), .y = device_y.view(), .d_bias = device_d_bias.view()});
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < n; ++c) {
        if (!(y.at(r, c) > 0.0)) expected.at(r, c) = 0.0;
        d_bias.at(0, c) += expected.at(r, c);
      }
    }
    trial.expect("d_y", d_y, expected, run.close);
    trial.expect("d_bias", device_d_bias, d_bias, kCloseSum);
  });
  run.kernel("bias_backward", shape_text(rows, run.model.d_model), run.dtype, [&](Trial& trial) {
    Context& context = trial.context();
    const Matrix d_y = trial.draw(rows, 3 * run.model.d_model, run.dtype);
    Matrix d_bias = trial.draw(1, run.model.d_model, DType::kF32);
    const Operand device_d_y(context, d_y, run.dtype), device_d_bias(context, d_bias, DType::kF32);
    // Of the gradients of queries, keys and values side by side those of the values.
    const int64_t first = 2 * run.model.d_model;
    bias_backward(context, {.d_y = device_d_y.view().col_range(first, run.model.d_model),
                            .d_bias = device_d_bias.view()});
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < d_bias.cols; ++c) d_bias.at(0, c) += d_y.at(r, first + c);
    }
    trial.expect("d_bias", device_d_bias, d_bias, kCloseSum);
  });
  run.kernel("apply_dropout", shape_text(rows, n), run.dtype, [&](Trial& trial) {
    Matrix x = trial.draw(rows, n, run.dtype);
    const Operand device_x(trial.context(), x, run.dtype);
    const TrialDropout dropout(trial.context(), 0.3F);
    apply_dropout(trial.context(), {.x = device_x.view(), .dropout = dropout.key});
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < n; ++c) x.at(r, c) *= dropout.factor(r, c);
    trial.expect("x", device_x, x, run.close);
  });
  const auto sigmoid = [](double x) { return 1.0 / (1.0 + std::exp(-x)); };
  run.kernel("swish_forward", shape_text(rows, n), run.dtype, [&](Trial& trial) {
    Context& context = trial.context();
    Matrix x = trial.draw(rows, n, run.dtype, 2.0);
    const Operand device_x(context, x, run.dtype), y(context, rows, n, run.dtype);
    swish_forward(context, {.x = device_x.view(), .y = y.view()});
    for (double& value : x.values) value *= sigmoid(value);
    trial.expect("y", y, x, run.close);
  });
  run.kernel("swish_backward", shape_text(rows, n), run.dtype, [&](Trial& trial) {
    Context& context = trial.context();
    const Matrix x = trial.draw(rows, n, run.dtype, 2.0);
    Matrix d_y = trial.draw(rows, n, run.dtype);
    const Operand device_x(context, x, run.dtype), device_d_y(context, d_y, run.dtype);
    swish_backward(context, {.x = device_x.view(), .d_y = device_d_y.view()});
    for (size_t i = 0; i < d_y.values.size(); ++i) {
      const double s = sigmoid(x.values[i]);
      d_y.values[i] *= s * (1.0 + x.values[i] * (1.0 - s));
    }
    trial.expect("d_x", device_d_y, d_y, run.close);
  });
}

}  // namespace

void try_layers(SelftestRun& run) {
  try_embedding(run);
  try_layer_norm(run);
  try_activations(run);
}

}  // namespace ventris
