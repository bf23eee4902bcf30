// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/support/operation_case.h"

namespace ventris::testing {

/// Logits of the size, of which `vocab` columns and `tokens` rows count.
struct LogitsCase : Case {
  int64_t vocab = 0;
  int64_t tokens = 0;
};
inline std::string name_of(const LogitsCase& c) {
  return name_of(static_cast<const Case&>(c)) + "_vocab" + std::to_string(c.vocab) + "_tokens" +
         std::to_string(c.tokens);
}

struct LogitsShape {
  Size size;
  int64_t vocab, tokens;
};
/// Each shape in every dtype.
inline std::vector<LogitsCase> logits_cases(const std::vector<LogitsShape>& shapes) {
  std::vector<LogitsCase> all;
  for (const LogitsShape& shape : shapes)
    for (const Case& c : cases(test_dtypes(), {shape.size})) all.push_back({c, shape.vocab, shape.tokens});
  return all;
}

/// Random ones for the rows that count, -1 for the others.
inline std::vector<int32_t> labels_of(const LogitsCase& c) {
  std::mt19937 generator(7);
  std::vector<int32_t> labels;
  for (int64_t t = 0; t < c.size.rows; ++t) {
    const auto label = static_cast<int32_t>(generator() % static_cast<uint64_t>(c.vocab));
    labels.push_back(t < c.tokens ? label : -1);
  }
  return labels;
}

}  // namespace ventris::testing
