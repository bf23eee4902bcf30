// SPDX-License-Identifier: Apache-2.0
#include "backend/clip_values.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/operands.h"
#include "tests/support/operation_case.h"

namespace ventris::testing {
namespace {

class ClipValues : public OperationTest {};
VENTRIS_FOR_CASES(ClipValues, cases_of_length(test_master_dtypes(), {1, 7, 31, 64, 5003, 20'011}));

TEST_P(ClipValues, LimitsEachElement) {
  const Buffer before = Buffer::random(1, GetParam().size.cols, GetParam().dtype, 1);
  Buffer expected = before;
  int64_t limited = 0;
  for (int64_t i = 0; i < before.size(); ++i) {
    limited += std::abs(before.get(i)) > 0.25 ? 1 : 0;
    expected.set(i, std::clamp(before.get(i), -0.25, 0.25));
  }
  if (before.size() > 20) {
    EXPECT_GT(limited, 0);
    EXPECT_LT(limited, before.size());
  }
  const MatrixOperand x(before);
  clip_values(test_context(), {.x = x.view(), .limit = 0.25});
  expect_same_bits("x", x, expected);
}

TEST_P(ClipValues, InfinityIsLimitedAndNanStays) {
  Buffer before(1, GetParam().size.cols, GetParam().dtype);
  const double numbers[] = {INFINITY, -INFINITY, NAN, 0.125};
  for (int64_t i = 0; i < before.size(); ++i) before.set(i, numbers[i % 4]);
  const MatrixOperand x(before);
  clip_values(test_context(), {.x = x.view(), .limit = 0.25});
  const Buffer got = x.get();
  for (int64_t i = 0; i < before.size(); ++i) {
    if (i % 4 == 2) {
      EXPECT_TRUE(std::isnan(got.get(i))) << i;
    } else {
      EXPECT_EQ(got.get(i), std::clamp(numbers[i % 4], -0.25, 0.25)) << i;
    }
  }
}

}  // namespace
}  // namespace ventris::testing
