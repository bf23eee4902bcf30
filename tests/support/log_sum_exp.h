// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "tests/support/device_buffer.h"

namespace ventris::testing {

/// Of the first `vocab` columns of a row.
inline double log_sum_exp(const Buffer& logits, int64_t row, int64_t vocab) {
  double sum = 0.0;
  for (int64_t w = 0; w < vocab; ++w) sum += std::exp(logits.get(row, w));
  return std::log(sum);
}

}  // namespace ventris::testing
