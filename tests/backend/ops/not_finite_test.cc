// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/not_finite.h"

#include "tests/support/operands.h"
#include "tests/support/operation_case.h"

namespace ventris::testing {
namespace {

class FindNotFinite : public OperationTest {};
VENTRIS_FOR_CASES(FindNotFinite, cases_of_length(test_master_dtypes(), {1, 17, 300, 5003, 70'001}));

TEST_P(FindNotFinite, GivesTheFirstValueAndTheLastGradient) {
  const DType dtype = GetParam().dtype;
  const int64_t n = GetParam().size.cols;
  const auto with = [&](uint32_t seed, std::initializer_list<std::pair<int64_t, double>> bad) {
    Buffer x = Buffer::random(1, n, dtype, seed);
    for (const auto& [where, value] : bad) x.set(where, value);
    return x;
  };
  struct Range {
    Buffer x;
    int64_t first, last;
  };
  const int64_t middle = n / 2;
  const std::vector<Range> ranges = {
      {with(3, {}), -1, -1},
      {with(4, {{n - 1, -INFINITY}}), n - 1, n - 1},
      {with(5, {{0, NAN}}), 0, 0},
      {with(6, {{middle, NAN}, {n - 1, INFINITY}}), middle, n - 1},
      {with(7, {{0, -INFINITY}, {middle, INFINITY}}), 0, middle},
  };
  const auto expect_found = [&](const Range& values, const Range& gradients, int32_t wanted) {
    const MatrixOperand device_values(values.x), device_gradients(gradients.x);
    const ArrayOperand<int32_t> device_wanted({wanted});
    const ArrayOperand<NotFinitePlaces> places({{5, 5}});
    find_not_finite(test_context(), {.values = device_values.view(),
                                     .gradients = device_gradients.view(),
                                     .wanted = device_wanted.data(),
                                     .places = places.data()});
    const NotFinitePlaces got = places.get()[0];
    EXPECT_EQ(got.first_value, wanted != 0 ? values.first : -1);
    EXPECT_EQ(got.last_gradient, wanted != 0 ? gradients.last : -1);
  };
  for (size_t i = 0; i < ranges.size(); ++i) {
    expect_found(ranges[i], ranges[i], 1);
    expect_found(ranges[i], ranges[(i + 1) % ranges.size()], 1);
  }
  for (const Range* values : {&ranges[0], &ranges[3]}) {  // nothing is looked for
    for (const Range* gradients : {&ranges[0], &ranges[3]}) expect_found(*values, *gradients, 0);
  }
}

}  // namespace
}  // namespace ventris::testing
