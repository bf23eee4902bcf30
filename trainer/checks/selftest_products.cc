// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "backend/gemm.h"
#include "backend/gemm_reference.h"
#include "backend/int8_scale.h"
#include "backend/linear_backward.h"
#include "backend/packed_gemm.h"
#include "model/output_layer.h"
#include "trainer/checks/selftest_kernels.h"

namespace ventris {
namespace {

constexpr double kShortSum = 8192.0;  // terms of a sum within the tolerance of its dtype

std::string product_text(int64_t m, int64_t n, int64_t k) {
  return fmt::format("{}x{}x{}", m, n, k);
}

/// Weights so small that a product of `depth` terms has numbers of about 1.
double weight_spread(int64_t depth) {
  return 1.0 / std::sqrt(static_cast<double>(depth));
}

/// Numbers that are exact in the precision, so that its products differ in their sums alone.
Matrix draw(const SelftestRun& run, Trial& trial, int64_t rows, int64_t cols, double spread = 1.0) {
  Matrix drawn = trial.draw(rows, cols, run.dtype, spread);
  if (run.precision == Precision::kTf32) {
    constexpr uint32_t kBits = ~((1U << 13) - 1);  // of an f32 that TF32 has
    for (double& value : drawn.values) {
      const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
      value = static_cast<double>(std::bit_cast<float>(bits & kBits));
    }
  }
  return drawn;
}

/// Of sums over `depth` terms, whose rounding errors grow with the square root of it.
Tolerance tolerance_of_row_product(const SelftestRun& run, int64_t depth) {
  Tolerance close = run.precision == Precision::kTf32 ? kCloseSum : run.close;
  close.absolute *= std::sqrt(1.0 + static_cast<double>(depth) / kShortSum);
  return close;
}

/// A product whose rows are tokens: forward, or the gradient of its input.
struct RowProduct {
  const char* kernel;
  int64_t rows;
  int64_t outputs;
  int64_t inputs;
  bool transpose_b;
  bool bias = false;
  bool relu = false;
  bool accumulate = false;
};

void try_row_product(SelftestRun& run, const RowProduct& p) {
  const std::string shape = product_text(p.rows, p.outputs, p.inputs) + (p.relu ? " relu" : "");
  run.product(p.kernel, shape, [&](Trial& trial) {
    Context& context = trial.context();
    const int64_t distinct = std::min(p.rows, kDistinctRows);
    const double spread = weight_spread(p.inputs);
    const Matrix x = draw(run, trial, distinct, p.inputs);
    const Matrix w = p.transpose_b ? draw(run, trial, p.outputs, p.inputs, spread)
                                   : draw(run, trial, p.inputs, p.outputs, spread);
    const Matrix bias = trial.draw(1, p.outputs, run.dtype);
    Matrix expected = p.accumulate ? trial.draw(distinct, p.outputs, run.dtype) : Matrix(distinct, p.outputs);
    const Operand device_x(context, x, run.dtype, p.rows), device_w(context, w, run.dtype);
    const Operand device_bias(context, bias, run.on_cpu() ? master_dtype(run.dtype) : run.dtype);
    const Operand y = p.accumulate ? Operand(context, expected, run.dtype, p.rows)
                                   : Operand(context, p.rows, p.outputs, run.dtype);
    gemm(context, {.a = device_x.view(),
                   .b = device_w.view(),
                   .c = y.view(),
                   .transpose_b = p.transpose_b,
                   .bias = p.bias ? device_bias.view() : Tensor{},
                   .relu = p.relu,
                   .accumulate = p.accumulate});
    gemm_reference(context, {.a = x.view(),
                             .b = w.view(),
                             .c = expected.view(),
                             .transpose_b = p.transpose_b,
                             .bias = p.bias ? bias.view() : Tensor{},
                             .relu = p.relu,
                             .accumulate = p.accumulate});
    trial.expect("c", y, expected, tolerance_of_row_product(run, p.inputs));
  });
}

/// c += a^T b over the rows of two activations; with `sums` also the sums of the columns of b.
void try_weight_gradient(SelftestRun& run, int64_t rows, int64_t m, int64_t n, bool sums) {
  const char* kernel = sums ? "linear_backward" : "gemm_weight_gradient";
  run.product(kernel, product_text(m, n, rows), [&](Trial& trial) {
    Context& context = trial.context();
    const int64_t distinct = std::min(rows, kDistinctRows);
    Matrix a = draw(run, trial, distinct, m);
    const Matrix b = draw(run, trial, distinct, n);
    // As large as the sum, so that it counts.
    Matrix expected =
        trial.draw(m, n, DType::kF32, static_cast<double>(rows) / std::sqrt(static_cast<double>(distinct)));
    const Operand device_a(context, a, run.dtype, rows), device_b(context, b, run.dtype, rows);
    const Operand c(context, expected, DType::kF32);
    Matrix d_bias = trial.draw(1, n, DType::kF32);
    const Operand device_d_bias(context, d_bias, DType::kF32);
    if (sums) {
      linear_backward(context, {.x = device_a.view(),
                                .d_y = device_b.view(),
                                .d_weight = c.view(),
                                .d_bias = device_d_bias.view()});
    } else {
      gemm(context, {.a = device_a.view(),
                     .b = device_b.view(),
                     .c = c.view(),
                     .transpose_a = true,
                     .accumulate = true});
    }
    for (int64_t r = 0; r < distinct; ++r) {
      const int64_t times = (rows - r + distinct - 1) / distinct;
      for (int64_t col = 0; sums && col < n; ++col)
        d_bias.at(0, col) += static_cast<double>(times) * b.at(r, col);
      std::for_each(a.row(r), a.row(r) + m, [&](double& value) { value *= static_cast<double>(times); });
    }
    gemm_reference(
        context,
        {.a = a.view(), .b = b.view(), .c = expected.view(), .transpose_a = true, .accumulate = true});
    trial.expect("c", c, expected, run.precision == Precision::kF32 ? kCloseLongSum : kCloseSum);
    if (sums) trial.expect("d_bias", device_d_bias, d_bias, kCloseSum);
  });
}

/// y = x w + b of a layer, with the gradients of x and w.
struct LinearShape {
  int64_t inputs;
  int64_t outputs;
  bool relu = false;
  bool accumulate = false;  // the gradient of x is added to that of the residual
};

void try_packed(SelftestRun& run, Packing packing, bool relu) {
  const int64_t rows = std::min(run.rows, kDistinctRows), inputs = run.model.d_model,
                outputs = run.model.d_ff;
  const std::string shape = product_text(rows, outputs, inputs) + " " + name_of(packing);
  run.kernel("packed_gemm", shape, run.dtype, [&](Trial& trial) {
    Context& context = trial.context();
    Matrix x = trial.draw(rows, inputs, run.dtype);
    Matrix w = trial.draw(inputs, outputs, run.dtype, weight_spread(inputs));
    const Matrix bias = trial.draw(1, outputs, DType::kF32);
    const Operand device_x(context, x, run.dtype), device_w(context, w, DType::kF32);
    const Operand device_bias(context, bias, DType::kF32), y(context, rows, outputs, run.dtype);
    const size_t bytes = packed_bytes(inputs, outputs, packing);
    Arena memory(Device::kCpu, bytes, "operands of the self-test");
    const PackedMatrix packed{memory.allocate(bytes), inputs, outputs, packing};
    pack(context, {.source = device_w.view(), .to = packed});
    packed_gemm(context,
                {.a = device_x.view(), .b = packed, .c = y.view(), .bias = device_bias.view(), .relu = relu});
    if (packing == Packing::kInt8) {  // rows of x and columns of w become whole numbers times a scale
      const auto quantize = [](double* first, int64_t count, int64_t step) {
        float largest = 0.0F;
        for (int64_t i = 0; i < count; ++i)
          largest = std::max(largest, static_cast<float>(std::abs(first[i * step])));
        const float scale = int8_scale(largest);
        for (int64_t i = 0; i < count; ++i) {
          double& value = first[i * step];
          value = int8_quantized(static_cast<float>(value), int8_inverse(scale)) * static_cast<double>(scale);
        }
      };
      for (int64_t r = 0; r < rows; ++r) quantize(x.row(r), inputs, 1);
      for (int64_t c = 0; c < outputs; ++c) quantize(w.row(0) + c, inputs, outputs);
    }
    Matrix expected(rows, outputs);
    gemm_reference(context,
                   {.a = x.view(), .b = w.view(), .c = expected.view(), .bias = bias.view(), .relu = relu});
    trial.expect("c", y, expected, run.close);
  });
}

}  // namespace

void try_products(SelftestRun& run) {
  const int64_t d = run.model.d_model, d_ff = run.model.d_ff;
  for (const LinearShape& layer :
       {LinearShape{d, 3 * d, false, true}, LinearShape{d, d}, LinearShape{d, 2 * d, false, true},
        LinearShape{d, d_ff, true, true}, LinearShape{d_ff, d}}) {
    try_row_product(run, {.kernel = "gemm_forward",
                          .rows = run.rows,
                          .outputs = layer.outputs,
                          .inputs = layer.inputs,
                          .transpose_b = false,
                          .bias = true,
                          .relu = layer.relu});
    try_row_product(run, {.kernel = "gemm_input_gradient",
                          .rows = run.rows,
                          .outputs = layer.inputs,
                          .inputs = layer.outputs,
                          .transpose_b = true,
                          .accumulate = layer.accumulate});
    try_weight_gradient(run, run.rows, layer.inputs, layer.outputs, /*sums=*/true);
  }
  // The output layer, whose weights are the table of embeddings.
  Arena measuring;
  const int64_t rows = OutputLayer::plan(measuring, run.model, run.device(), run.dtype, run.rows).logits.rows;
  const int64_t vocab = run.model.padded_vocab();
  try_row_product(
      run, {.kernel = "gemm_forward", .rows = rows, .outputs = vocab, .inputs = d, .transpose_b = true});
  try_row_product(
      run,
      {.kernel = "gemm_input_gradient", .rows = rows, .outputs = d, .inputs = vocab, .transpose_b = false});
  try_weight_gradient(run, rows, vocab, d, /*sums=*/false);
}

void try_packed_products(SelftestRun& run) {
  try_packed(run, packing_of(run.dtype), false);
  if (run.dtype == DType::kF32) try_packed(run, Packing::kInt8, true);
}

}  // namespace ventris
