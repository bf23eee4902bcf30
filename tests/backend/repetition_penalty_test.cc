// SPDX-License-Identifier: Apache-2.0
#include "backend/repetition_penalty.h"

#include <gtest/gtest.h>

#include <vector>

#include "backend/error.h"
#include "tests/support/device_buffer.h"

namespace ventris {
namespace {

using testing::Buffer;

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
