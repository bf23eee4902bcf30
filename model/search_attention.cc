// SPDX-License-Identifier: Apache-2.0
#include "model/search_attention.h"

namespace ventris {

SearchAttention::SearchAttention(const MicroBatch& batch) {
  const auto add = [](Keys& keys, int32_t first, int32_t end) {
    for (int32_t row = first; row < end; ++row) keys.rows.push_back(row);
    keys.begin.push_back(static_cast<int32_t>(keys.rows.size()));
  };
  self.begin = cross.begin = {0};
  for (int64_t s = 0; s < batch.sentences; ++s) {
    for (int32_t row = batch.target_offsets[s]; row < batch.target_offsets[s + 1]; ++row) {
      add(self, batch.target_offsets[s], row + 1);
      add(cross, batch.source_offsets[s], batch.source_offsets[s + 1]);
    }
  }
  // Rows of padding have no keys.
  self.begin.resize(static_cast<size_t>(batch.target_rows) + 1, self.begin.back());
  cross.begin.resize(static_cast<size_t>(batch.target_rows) + 1, cross.begin.back());
}

}  // namespace ventris
