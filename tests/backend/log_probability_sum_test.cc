#include "backend/log_probability_sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/compare.h"
#include "tests/support/tolerance.h"

namespace ventris {
namespace {

using testing::Buffer;
using testing::kAllDTypes;

/// softmax over the first `vocab` columns of a row.
double probability(const Buffer& logits, int64_t row, int64_t vocab, int64_t word) {
  const int64_t first = row * logits.view().cols;
  double sum = 0.0;
  for (int64_t w = 0; w < vocab; ++w) sum += std::exp(logits.get(first + w));
  return std::exp(logits.get(first + word)) / sum;
}

TEST(LogProbabilitySum, AddsProbabilities) {
  for (const DType dtype : kAllDTypes) {
    for (const int64_t vocab : {1, 17, 1500}) {
      Context context({.threads = 2});
      const Buffer one = Buffer::random(9, vocab + 2, dtype, 1, 2.0);
      const Buffer other = Buffer::random(9, vocab + 2, dtype, 2, 2.0);
      Buffer sum = Buffer::random(9, vocab + 1, master_dtype(dtype), 3);
      const double beyond = sum.get(vocab);
      log_probability_sum(context, {.logits = one.view(), .vocab = vocab, .first = true, .sum = sum.view()});
      log_probability_sum(context,
                          {.logits = other.view(), .vocab = vocab, .first = false, .sum = sum.view()});
      for (int64_t r = 0; r < 9; ++r) {
        for (int64_t w = 0; w < vocab; ++w) {
          const double expected = probability(one, r, vocab, w) + probability(other, r, vocab, w);
          ASSERT_NEAR(sum.get(r * (vocab + 1) + w), std::log(expected), 1e-4);
        }
      }
      EXPECT_EQ(sum.get(vocab), beyond);
    }
  }
}

TEST(LogProbabilitySum, ProbabilitiesOfZeroStayZero) {
  Context context({});
  Buffer logits(1, 3, DType::kF32);
  logits.set(1, -std::numeric_limits<double>::infinity());
  Buffer sum(1, 3, DType::kF32);
  for (const bool first : {true, false}) {
    log_probability_sum(context, {.logits = logits.view(), .vocab = 3, .first = first, .sum = sum.view()});
  }
  EXPECT_EQ(sum.get(1), -std::numeric_limits<double>::infinity());
  EXPECT_NEAR(sum.get(0), 0.0, 1e-6);
}

}  // namespace
}  // namespace ventris
