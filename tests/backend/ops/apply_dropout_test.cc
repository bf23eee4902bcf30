// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/apply_dropout.h"

#include "tests/support/dropout_mask.h"
#include "tests/support/operands.h"
#include "tests/support/operation_case.h"

namespace ventris::testing {
namespace {

class ApplyDropout : public OperationTest {};
VENTRIS_FOR_CASES(ApplyDropout,
                  cases(test_dtypes(), {{1, 1}, {3, 7, 2}, {5, 64}, {37, 264, 8}, {71, 229}, {19, 2048}},
                        {0.0F, 0.3F}));

TEST_P(ApplyDropout, MultipliesByTheMask) {
  const auto& [device, dtype, size, rate] = GetParam();
  const DropoutPosition position = {.step = 3, .row_base = 7};
  const ArrayOperand<DropoutPosition> device_position({position});
  DropoutKey key = {.rate = rate, .seed = uint64_t{5} << 32 | 11, .place = 0x10600, .position = &position};
  Buffer x = Buffer::random(size.rows, size.cols, dtype, 1);
  std::vector<double> expected;
  for (int64_t i = 0; i < x.size(); ++i)
    expected.push_back(dropout_mask(key, i / size.cols, i % size.cols) * x.get(i));
  const MatrixOperand device_x(x, size.gap);
  key.position = device_position.data();
  apply_dropout(test_context(), {.x = device_x.view(), .dropout = key});
  expect_close("x", device_x, expected, dtype);
}

TEST(ApplyDropoutMask, DropsNaNToo) {
  for (const DType dtype : test_dtypes()) {
    const DropoutPosition position = {.step = 1, .row_base = 0};
    const ArrayOperand<DropoutPosition> device_position({position});
    DropoutKey key = {.rate = 0.5F, .seed = 3, .place = 0x600, .position = &position};
    Buffer x(1, 64, dtype);
    for (int64_t i = 0; i < x.size(); ++i) x.set(i, std::nan(""));
    const MatrixOperand device_x(x);
    DropoutKey device_key = key;
    device_key.position = device_position.data();
    apply_dropout(test_context(), {.x = device_x.view(), .dropout = device_key});
    const Buffer got = device_x.get();
    for (int64_t i = 0; i < x.size(); ++i)
      EXPECT_EQ(std::isnan(got.get(i)), dropout_mask(key, 0, i) != 0.0) << i;
  }
}

TEST(ApplyDropoutMask, RefusesAMaskWithoutAPosition) {
  const MatrixOperand x(Buffer::random(2, 8, DType::kF32, 4));
  EXPECT_THROW(apply_dropout(test_context(), {.x = x.view(), .dropout = {.rate = 0.5F}}), Error);
}

}  // namespace
}  // namespace ventris::testing
