// SPDX-License-Identifier: Apache-2.0
#include "backend/tempered_softmax.h"

#include <cmath>
#include <limits>

#include "tests/support/operands.h"
#include "tests/support/operation_case.h"

namespace ventris::testing {
namespace {

constexpr int64_t kFirstLogitRow = 5;

/// `cols` tokens; the logits have two columns more. The last row does not count.
class TemperedSoftmax : public OperationTest {
 protected:
  void run(const Buffer& logits, float temperature, float factor, bool accumulate,
           Tensor probabilities) const {
    const MatrixOperand device_logits(logits, GetParam().size.gap);
    const ArrayOperand<int32_t> tokens({static_cast<int32_t>(kFirstLogitRow + GetParam().size.rows - 1)});
    tempered_softmax(test_context(), {.logits = device_logits.view(),
                                      .temperature = temperature,
                                      .factor = factor,
                                      .accumulate = accumulate,
                                      .first_row = kFirstLogitRow,
                                      .tokens = tokens.data(),
                                      .vocab = GetParam().size.cols,
                                      .probabilities = probabilities});
  }
};
VENTRIS_FOR_CASES(TemperedSoftmax,
                  cases(test_dtypes(), {{2, 1, 2}, {9, 17}, {3, 131, 2}, {3, 702, 8}, {4, 2606}}));

TEST_P(TemperedSoftmax, IsTheMeanOfSeveralModels) {
  const auto& [device, dtype, size, rate] = GetParam();
  for (const auto& [temperature, factor] : {std::pair(1.0F, 1.0F), {2.5F, 0.5F}, {0.5F, 0.25F}}) {
    SCOPED_TRACE(temperature);
    const MatrixOperand probabilities(size.rows, size.cols, master_dtype(dtype), size.gap);
    std::vector<double> expected(static_cast<size_t>(size.rows * size.cols));
    for (const uint32_t seed : {1U, 2U}) {
      const Buffer logits = Buffer::random(size.rows, size.cols + 2, dtype, seed, 3.0);
      run(logits, temperature, factor, seed > 1, probabilities.view());
      for (int64_t r = 0; r + 1 < size.rows; ++r) {
        const auto mass = [&, t = static_cast<double>(temperature)](int64_t w) {
          return std::exp(logits.get(r, w) / t);
        };
        double sum = 0.0;
        for (int64_t w = 0; w < size.cols; ++w) sum += mass(w);
        for (int64_t w = 0; w < size.cols; ++w)
          expected[static_cast<size_t>(r * size.cols + w)] += static_cast<double>(factor) * mass(w) / sum;
      }
      const Buffer got = probabilities.get();
      for (int64_t i = 0; i < got.size(); ++i) {
        if (i / size.cols + 1 == size.rows) {
          ASSERT_TRUE(std::isnan(got.get(i))) << "a row that does not count";
        } else {
          ASSERT_TRUE(close(got.get(i), expected[static_cast<size_t>(i)], {1e-9, 1e-5}))
              << "element " << i << " is " << got.get(i) << ", expected " << expected[static_cast<size_t>(i)];
        }
      }
    }
  }
}

TEST_P(TemperedSoftmax, NotANumberReachesTheProbabilities) {
  const auto& [device, dtype, size, rate] = GetParam();
  Buffer logits = Buffer::random(size.rows, size.cols + 2, dtype, 1);
  logits.set(size.cols - 1, std::numeric_limits<double>::quiet_NaN());
  const MatrixOperand probabilities(Buffer(size.rows, size.cols, master_dtype(dtype)));
  run(logits, 2.0F, 1.0F, false, probabilities.view());
  const Buffer got = probabilities.get();
  for (int64_t w = 0; w < size.cols; ++w) EXPECT_TRUE(std::isnan(got.get(0, w)));
}

}  // namespace
}  // namespace ventris::testing
