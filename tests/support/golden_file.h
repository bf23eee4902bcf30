// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/device/dtype.h"

namespace ventris::testing {

struct GoldenArray {
  uint32_t rows = 0;
  uint32_t cols = 0;
  std::vector<float> floats;      // types f32 and bf16
  std::vector<int32_t> integers;  // type i32
};

/// Reads a file of tests/golden (the format stands in make_transformer_golden.py).
inline std::map<std::string, GoldenArray> read_golden(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  size_t at = 0;
  const auto take = [&](void* to, size_t count) {
    if (at + count > bytes.size()) throw std::runtime_error(path + " is cut off");
    std::memcpy(to, bytes.data() + at, count);
    at += count;
  };
  std::map<std::string, GoldenArray> entries;
  while (at < bytes.size()) {
    uint32_t length = 0;
    take(&length, 4);
    std::string name(length, ' ');
    take(name.data(), length);
    GoldenArray& entry = entries[name];
    uint8_t type = 0;
    take(&entry.rows, 4);
    take(&entry.cols, 4);
    take(&type, 1);
    const size_t count = size_t{entry.rows} * entry.cols;
    if (type == 1) {
      entry.integers.resize(count);
      take(entry.integers.data(), count * 4);
    } else if (type == 2) {
      std::vector<BF16> numbers(count);
      take(numbers.data(), count * sizeof(BF16));
      for (const BF16 number : numbers) entry.floats.push_back(static_cast<float>(number));
    } else {
      entry.floats.resize(count);
      take(entry.floats.data(), count * 4);
    }
  }
  return entries;
}

}  // namespace ventris::testing
