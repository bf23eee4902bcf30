// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/bias_relu.h"

#include "backend/ops/column_sums.h"
#include "tests/support/operands.h"
#include "tests/support/operation_case.h"

namespace ventris::testing {
namespace {

class BiasBackward : public OperationTest {};
VENTRIS_FOR_CASES(BiasBackward,
                  cases(test_dtypes(),
                        {{1, 1}, {3, 7, 2}, {5, 64}, {37, 264, 8}, {71, 229}, {300, 521}, {1000, 33}}));

/// With ReLU and without; twice, for the same bits: to mask twice changes nothing.
TEST_P(BiasBackward, MatchesTheReferenceAndRepeatsItsBits) {
  const auto& [device, dtype, size, rate] = GetParam();
  Buffer y = Buffer::random(size.rows, size.cols, dtype, 1);
  for (int64_t i = 0; i < y.size(); i += 3) y.set(i, 0.0);
  const Buffer d_y = Buffer::random(size.rows, size.cols, dtype, 2);
  const Buffer d_bias = Buffer::random(1, size.cols, master_dtype(dtype), 3);
  for (const bool relu : {false, true}) {
    SCOPED_TRACE(relu ? "with ReLU" : "without ReLU");
    Buffer masked = d_y;
    std::vector<double> sums = to_doubles(d_bias);
    for (int64_t i = 0; i < y.size(); ++i) {
      if (relu && y.get(i) <= 0.0) masked.set(i, 0.0);
      sums[static_cast<size_t>(i % size.cols)] += masked.get(i);
    }
    const MatrixOperand device_y(y, size.gap), gradient(d_y, size.gap), first(d_bias), second(d_bias);
    for (const MatrixOperand* bias : {&first, &second}) {
      Context& context = bias == &first ? test_context() : other_context();
      if (relu) {
        bias_relu_backward(context, {.d_y = gradient.view(), .y = device_y.view(), .d_bias = bias->view()});
      } else {
        bias_backward(context, {.d_y = gradient.view(), .d_bias = bias->view()});
      }
    }
    expect_same_bits("d_y", gradient, masked);
    expect_close("d_bias", first, sums, master_dtype(dtype));
    expect_same_bits("d_bias again", first, second);
  }
}

/// The second and the fourth quarter of the columns, twice for one destination, with sums that wait.
TEST_P(BiasBackward, OfGroupsLeavesTheOtherColumnsAndMayWait) {
  const auto& [device, dtype, size, rate] = GetParam();
  const int64_t unit = size.cols / 4;
  if (unit == 0) return;
  const ColumnGroups columns = {.first = unit, .count = unit, .period = 2 * unit};
  const Buffer d_y = Buffer::random(size.rows, 4 * unit, dtype, 2);
  const Buffer d_bias = Buffer::random(1, 4 * unit, master_dtype(dtype), 3);
  std::vector<double> sums = to_doubles(d_bias);
  for (int64_t i = 0; i < d_y.size(); ++i) {
    if (i % (4 * unit) / unit % 2 == 1) sums[static_cast<size_t>(i % (4 * unit))] += 2.0 * d_y.get(i);
  }
  const MatrixOperand gradient(d_y, size.gap), bias(d_bias);
  for (int i = 0; i < 2; ++i) {
    bias_backward(test_context(),
                  {.d_y = gradient.view(), .d_bias = bias.view(), .columns = columns, .sums_later = true});
  }
  complete_column_sums(test_context());
  expect_close("d_bias", bias, sums, master_dtype(dtype));
  const Buffer got = bias.get();
  for (int64_t c = 0; c < 4 * unit; ++c) {
    EXPECT_TRUE(c / unit % 2 == 1 || got.get(c) == d_bias.get(c)) << "column " << c << " of no group";
  }
}

}  // namespace
}  // namespace ventris::testing
