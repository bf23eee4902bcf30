// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <vector>

#include "backend/device/arena.h"
#include "backend/ops/packed_gemm.h"
#include "tests/support/device_buffer.h"

namespace ventris::testing {

/// Owns packed matrices.
class PackedMatrices {
 public:
  /// Packs `columns` at a time of source [k, n], or of its transpose.
  PackedMatrix make(Context& context, Packing packing, const Buffer& source, bool transpose,
                    int64_t columns) {
    const ConstTensor view = source.view();
    const int64_t k = transpose ? view.cols : view.rows;
    const int64_t n = transpose ? view.rows : view.cols;
    const size_t bytes = packed_bytes(k, n, packing);
    arenas_.emplace_back(Device::kCpu, bytes);
    const PackedMatrix to{arenas_.back().allocate(bytes), k, n, packing};
    for (int64_t begin = 0; begin < n; begin += columns) {
      const int64_t count = std::min(columns, n - begin);
      pack(context, {.source = transpose ? view.row_range(begin, count) : view.col_range(begin, count),
                     .transpose = transpose,
                     .to = to,
                     .first_column = begin});
    }
    return to;
  }

 private:
  std::vector<Arena> arenas_;
};

}  // namespace ventris::testing
