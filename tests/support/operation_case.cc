// SPDX-License-Identifier: Apache-2.0
#include "tests/support/operation_case.h"

#include <cmath>
#include <ostream>

namespace ventris::testing {

std::string device_and_dtype(Device device, DType dtype) {
  return std::string(name_of(device)) + "_" + name_of(dtype);
}

std::string suffix(const std::string& what, int64_t value) {
  return value == 0 ? "" : "_" + what + std::to_string(value);
}

std::string name_of(const Case& c) {
  return device_and_dtype(c.device, c.dtype) + "_" + std::to_string(c.size.rows) + "x" +
         std::to_string(c.size.cols) + suffix("gap", c.size.gap) +
         suffix("rate", std::lround(100.0F * c.rate));
}

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << name_of(c);
}

std::vector<DType> test_dtypes() {
  if (test_device() == Device::kCuda) return {DType::kF32, DType::kBF16};
  return {DType::kF32, DType::kBF16, DType::kF64};
}

std::vector<DType> test_master_dtypes() {
  if (test_device() == Device::kCuda) return {DType::kF32};
  return {DType::kF32, DType::kF64};
}

std::vector<Case> cases(const std::vector<DType>& dtypes, const std::vector<Size>& sizes,
                        const std::vector<float>& rates) {
  std::vector<Case> all;
  for (const DType dtype : dtypes) {
    for (const Size& size : sizes) {
      for (const float rate : rates) all.push_back({test_device(), dtype, size, rate});
    }
  }
  return all;
}

std::vector<Case> cases_of_length(const std::vector<DType>& dtypes, const std::vector<int64_t>& lengths) {
  std::vector<Size> sizes;
  for (const int64_t length : lengths) sizes.push_back({1, length});
  return cases(dtypes, sizes);
}

}  // namespace ventris::testing
