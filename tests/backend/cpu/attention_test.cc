// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "backend/device/context.h"
#include "tests/support/attention_operands.h"

namespace ventris {
namespace {

using testing::AttentionOperands;
using testing::Buffer;

TEST(Attention, GivesTheWorkedExampleOfTheTextbooks) {
  const double inputs[3][4] = {{1, 0, 1, 0}, {0, 2, 0, 2}, {1, 1, 1, 1}};
  const double weights[3][4][3] = {{{1, 0, 1}, {1, 0, 0}, {0, 0, 1}, {0, 1, 1}},
                                   {{0, 0, 1}, {1, 1, 0}, {0, 1, 0}, {1, 1, 0}},
                                   {{0, 2, 0}, {0, 3, 0}, {1, 0, 3}, {1, 1, 0}}};
  for (DType dtype : {DType::kF32, DType::kF64}) {
    std::vector<Buffer> projected(3, Buffer(3, 3, dtype));  // query, key, value
    for (int which = 0; which < 3; ++which) {
      for (int t = 0; t < 3; ++t) {
        for (int c = 0; c < 3; ++c) {
          double sum = 0.0;
          for (int i = 0; i < 4; ++i) sum += inputs[t][i] * weights[which][i][c];
          projected[static_cast<size_t>(which)].set(t * 3 + c, sum);
        }
      }
    }
    Context context({});
    const int32_t offsets[] = {0, 3};
    Buffer out(3, 3, dtype);
    Buffer log_sum_exp(1, 3, dtype);
    Buffer probabilities(3, 3, dtype);
    attention_forward(context, {.query = projected[0].view(),
                                .key = projected[1].view(),
                                .value = projected[2].view(),
                                .query_offsets = offsets,
                                .key_offsets = offsets,
                                .sentences = 1,
                                .heads = 1,
                                .scale = 1.0F,
                                .work = {},
                                .out = out.view(),
                                .log_sum_exp = log_sum_exp.view(),
                                .probabilities = probabilities.view()});
    const double scores[3][3] = {{2, 4, 4}, {4, 16, 12}, {4, 12, 10}};
    const double first_row[] = {0.06337894, 0.46831053, 0.46831053};
    const double first_output[] = {1.93662106, 6.68310531, 1.59506841};
    for (int t = 0; t < 3; ++t) {
      for (int j = 0; j < 3; ++j) {
        EXPECT_NEAR(std::log(probabilities.get(t, j)) + log_sum_exp.get(t), scores[t][j], 1e-5);
      }
      EXPECT_NEAR(probabilities.get(0, t), first_row[t], 1e-6);
      EXPECT_NEAR(out.get(0, t), first_output[t], 1e-6);
    }
  }
}

TEST(Attention, RefusesShapesThatDoNotFit) {
  AttentionOperands causal({{4}, {5}, 2, 8, true}, DType::kF32, 0.0F);
  EXPECT_THROW(causal.run(), Error) << "with unequal offsets";
  AttentionOperands narrow({{4}, {5}, 2, 8, false}, DType::kF32, 0.0F);
  const testing::MatrixOperand probabilities(7, 2 * 4, DType::kF32);
  EXPECT_THROW(narrow.run_forward({}, probabilities.view(), true), Error);
}

/// Of the reference, whose gradients are those of the operation.
TEST(Attention, GradientsAgreeWithFiniteDifferences) {
  for (const bool causal : {false, true}) {
    for (const float rate : {0.0F, 0.25F}) {
      const std::vector<int> keys = causal ? std::vector<int>{} : std::vector<int>{3, 1, 2, 11};
      AttentionOperands operands({{1, 5, 0, 7}, keys, 2, 3, causal}, DType::kF64, rate);
      operands.run();
      testing::AttentionReference r = operands.reference();
      operands.expect_matches(r);
      const auto expect_gradient = [&](std::vector<double>& input, const std::vector<double>& gradient) {
        const auto loss_with = [&](double& element, double value) {
          element = value;
          r.compute();
          return std::inner_product(r.out.begin(), r.out.end(), r.d_out.begin(), 0.0);
        };
        constexpr double kStep = 1e-5;
        for (size_t i = 0; i < input.size(); ++i) {
          const double x = input[i];
          const double difference = loss_with(input[i], x + kStep) - loss_with(input[i], x - kStep);
          input[i] = x;
          ASSERT_NEAR(gradient[i], difference / (2 * kStep), 1e-7) << "element " << i;
        }
      };
      const testing::AttentionReference found = r;
      expect_gradient(r.query, found.d_query);
      expect_gradient(r.key, found.d_key);
      expect_gradient(r.value, found.d_value);
    }
  }
}

}  // namespace
}  // namespace ventris
