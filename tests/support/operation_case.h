#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "backend/dtype.h"
#include "tests/support/test_device.h"

/// What one test of an operation varies. The tests of tests/backend/operations run once for each case, on the
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

inline std::string device_and_dtype(Device device, DType dtype) {
  return std::string(name_of(device)) + "_" + name_of(dtype);
}
/// For a part of a name: nothing where there is nothing to say.
inline std::string suffix(const std::string& what, int64_t value) {
  return value == 0 ? "" : "_" + what + std::to_string(value);
}
inline std::string name_of(const Case& c) {
  return device_and_dtype(c.device, c.dtype) + "_" + std::to_string(c.size.rows) + "x" +
         std::to_string(c.size.cols) + suffix("gap", c.size.gap) +
         suffix("rate", std::lround(100.0F * c.rate));
}
inline std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << name_of(c);
}

/// What operations take on the device that is tested: all dtypes, and those of masters.
inline std::vector<DType> test_dtypes() {
  if (test_device() == Device::kCuda) return {DType::kF32, DType::kBF16};
  return {DType::kF32, DType::kBF16, DType::kF64};
}
inline std::vector<DType> test_master_dtypes() {
  if (test_device() == Device::kCuda) return {DType::kF32};
  return {DType::kF32, DType::kF64};
}

/// Each dtype with each size and each rate.
inline std::vector<Case> cases(const std::vector<DType>& dtypes, const std::vector<Size>& sizes,
                               const std::vector<float>& rates = {0.0F}) {
  std::vector<Case> all;
  for (const DType dtype : dtypes) {
    for (const Size& size : sizes) {
      for (const float rate : rates) all.push_back({test_device(), dtype, size, rate});
    }
  }
  return all;
}
/// Vectors of these lengths.
inline std::vector<Case> cases_of_length(const std::vector<DType>& dtypes,
                                         const std::vector<int64_t>& lengths) {
  std::vector<Size> sizes;
  for (const int64_t length : lengths) sizes.push_back({1, length});
  return cases(dtypes, sizes);
}

/// A test suite that runs for each of a list of cases.
class OperationTest : public ::testing::TestWithParam<Case> {};

}  // namespace ventris::testing

/// Runs the tests of a suite for each element of a list of cases, which have a name_of().
#define VENTRIS_FOR_CASES(suite, ...)                                          \
  INSTANTIATE_TEST_SUITE_P(Operation, suite, ::testing::ValuesIn(__VA_ARGS__), \
                           [](const auto& info) { return name_of(info.param); })
