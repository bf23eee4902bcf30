// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/ops/dropout.h"

namespace ventris::testing {

/// What an element is multiplied by, straight from the definition in backend/ops/dropout.h.
inline double dropout_mask(const DropoutKey& key, int64_t row, int64_t col, int head = 0) {
  if (!key.active()) return 1.0;
  const auto bits = dropout_bits(key, static_cast<uint32_t>(row), static_cast<uint32_t>(col / 8),
                                 static_cast<uint32_t>(head));
  return bits[static_cast<size_t>(col % 8)] < key.threshold() ? 0.0 : key.scale();
}

}  // namespace ventris::testing
