#include "backend/repetition_penalty.h"

#include <gtest/gtest.h>

#include <vector>

#include "backend/error.h"
#include "tests/support/compare.h"
#include "tests/support/tolerance.h"

namespace ventris {
namespace {

using testing::Buffer;
using testing::kAllDTypes;

TEST(RepetitionPenalty, DividesPositiveLogitsAndMultipliesOthersOfTheListsAlone) {
  for (const DType dtype : kAllDTypes) {
    Context context({});
    Buffer logits = Buffer::random(3, 40, dtype, 1, 2.0);
    const Buffer before = logits;
    const std::vector<int32_t> tokens = {3, 5, 39, 0};
    const std::vector<int32_t> begin = {0, 3, 3, 4};
    repetition_penalty(
        context, {.logits = logits.view(), .tokens = tokens.data(), .begin = begin.data(), .penalty = 2.0F});
    for (int64_t r = 0; r < 3; ++r) {
      for (int64_t w = 0; w < 40; ++w) {
        const bool listed = (r == 0 && (w == 3 || w == 5 || w == 39)) || (r == 2 && w == 0);
        const double value = before.get(r * 40 + w);
        const double changed = value > 0 ? value / 2 : value * 2;  // exact in every dtype
        EXPECT_EQ(logits.get(r * 40 + w), listed ? changed : value) << "row " << r << ", token " << w;
      }
    }
  }
}

TEST(RepetitionPenalty, RefusesTokensOutsideOfTheRow) {
  Context context({});
  Buffer logits(1, 4, DType::kF32);
  const std::vector<int32_t> tokens = {4};
  const std::vector<int32_t> begin = {0, 1};
  EXPECT_THROW(
      repetition_penalty(
          context,
          {.logits = logits.view(), .tokens = tokens.data(), .begin = begin.data(), .penalty = 2.0F}),
      Error);
}

}  // namespace
}  // namespace ventris
