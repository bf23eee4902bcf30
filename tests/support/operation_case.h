// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "backend/device/dtype.h"
#include "tests/support/test_device.h"

/// What one test of an operation varies. The tests of tests/backend/ops run once for each case, on the
/// device of the program, with a name such as LayerNorm.MatchesTheReference/cuda_bf16_37x264_gap8_rate30.
namespace ventris::testing {

struct Size {
  int64_t rows;
  int64_t cols;
  int64_t gap = 0;  // elements between rows
};

struct Case {
  Device device;
  DType dtype;
  Size size;
  float rate = 0.0F;  // of dropout
};

std::string device_and_dtype(Device device, DType dtype);
/// For a part of a name: nothing where there is nothing to say.
std::string suffix(const std::string& what, int64_t value);
std::string name_of(const Case& c);
std::ostream& operator<<(std::ostream& out, const Case& c);

/// What operations take on the device that is tested: all dtypes, and those of masters.
std::vector<DType> test_dtypes();
std::vector<DType> test_master_dtypes();

/// Each dtype with each size and each rate.
std::vector<Case> cases(const std::vector<DType>& dtypes, const std::vector<Size>& sizes,
                        const std::vector<float>& rates = {0.0F});
/// Vectors of these lengths.
std::vector<Case> cases_of_length(const std::vector<DType>& dtypes, const std::vector<int64_t>& lengths);

/// A test suite that runs for each of a list of cases.
class OperationTest : public ::testing::TestWithParam<Case> {};

}  // namespace ventris::testing

/// Runs the tests of a suite for each element of a list of cases, which have a name_of().
#define VENTRIS_FOR_CASES(suite, ...)                                          \
  INSTANTIATE_TEST_SUITE_P(Operation, suite, ::testing::ValuesIn(__VA_ARGS__), \
                           [](const auto& info) { return name_of(info.param); })
