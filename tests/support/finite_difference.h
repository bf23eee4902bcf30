// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "tests/support/device_buffer.h"

namespace ventris::testing {

/// Derivative of loss() with respect to element `index` of `input` (f64) by central differences of fourth
/// order: (8 (f(x+h) - f(x-h)) - (f(x+2h) - f(x-2h))) / 12h. `input` is put back as it was.
template <typename Loss>
double finite_difference(Loss&& loss, Buffer& input, int64_t index, double step = 1e-3) {
  const double x = input.get(index);
  const auto at = [&](double offset) {
    input.set(index, x + offset);
    return static_cast<double>(loss());
  };
  const double near = at(step) - at(-step);
  const double far = at(2 * step) - at(-2 * step);
  input.set(index, x);
  return (8.0 * near - far) / (12.0 * step);
}

/// Compares `analytic`, the gradient of loss() with respect to `input`, with finite differences, in every
/// element or, where there are more than `samples`, in that many spread over the buffer. loss() reads `input`
/// anew at every call. The error is relative to the largest gradient of those compared.
template <typename Loss>
void check_gradient(const std::string& name, Loss&& loss, Buffer& input, const Buffer& analytic,
                    double tolerance = 1e-7, int64_t samples = 200) {
  ASSERT_EQ(input.size(), analytic.size()) << name;
  const int64_t size = input.size();
  const int64_t count = std::min(size, samples);
  double largest = 1e-3;
  double worst = 0.0;
  int64_t where = 0;
  double expected_there = 0.0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t index = i * size / count;
    const double expected = finite_difference(loss, input, index);
    double difference = std::abs(analytic.get(index) - expected);
    if (std::isnan(difference)) difference = std::numeric_limits<double>::infinity();
    largest = std::max(largest, std::abs(expected));
    if (difference > worst) {
      worst = difference;
      where = index;
      expected_there = expected;
    }
  }
  EXPECT_LE(worst, tolerance * largest) << name << ": element " << where << " of " << size << ": gradient "
                                        << analytic.get(where) << ", finite differences " << expected_there;
}

}  // namespace ventris::testing
