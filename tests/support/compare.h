// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/device_buffer.h"
#include "tests/support/tolerance.h"

namespace ventris::testing {

inline constexpr std::array<DType, 3> kAllDTypes = {DType::kF32, DType::kBF16, DType::kF64};

/// Every element of `got` is within the tolerance of `expected`; the first that is not is reported.
inline void expect_close(const std::string& name, const Buffer& got, const std::vector<double>& expected,
                         Tolerance tolerance) {
  ASSERT_EQ(got.size(), static_cast<int64_t>(expected.size())) << name;
  for (int64_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(close(got.get(i), expected[static_cast<size_t>(i)], tolerance))
        << name << ": element " << i << " of " << got.size() << " is " << got.get(i) << ", expected "
        << expected[static_cast<size_t>(i)];
  }
}

inline void expect_same_bits(const std::string& name, const Buffer& a, const Buffer& b) {
  const ConstTensor x = a.view();
  const ConstTensor y = b.view();
  ASSERT_EQ(x.size(), y.size()) << name;
  ASSERT_EQ(x.dtype, y.dtype) << name;
  EXPECT_EQ(std::memcmp(x.data, y.data, static_cast<size_t>(x.size()) * size_of(x.dtype)), 0) << name;
}

inline std::vector<double> to_doubles(const Buffer& buffer) {
  std::vector<double> values(static_cast<size_t>(buffer.size()));
  for (int64_t i = 0; i < buffer.size(); ++i) values[static_cast<size_t>(i)] = buffer.get(i);
  return values;
}

/// Sum of a[i] * b[i] in f64.
inline double dot(const Buffer& a, const Buffer& b) {
  double sum = 0.0;
  for (int64_t i = 0; i < a.size(); ++i) sum += a.get(i) * b.get(i);
  return sum;
}

}  // namespace ventris::testing
