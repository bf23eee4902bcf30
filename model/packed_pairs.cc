// SPDX-License-Identifier: Apache-2.0
#include "model/packed_pairs.h"

namespace ventris {

void PackedPairs::add(std::span<const int32_t> source, std::span<const int32_t> target) {
  const auto count = [](size_t rows, std::vector<int32_t>& position) {
    for (size_t i = 0; i < rows; ++i) position.push_back(static_cast<int32_t>(i));
  };
  source_ids_.insert(source_ids_.end(), source.begin(), source.end());
  source_ids_.push_back(marks_.source_end_id);
  count(source.size() + 1, source_position_);
  source_offsets_.push_back(static_cast<int32_t>(source_ids_.size()));
  target_ids_.push_back(marks_.begin_id);
  target_ids_.insert(target_ids_.end(), target.begin(), target.end());
  labels_.insert(labels_.end(), target.begin(), target.end());
  labels_.push_back(marks_.end_id);
  count(target.size() + 1, target_position_);
  target_offsets_.push_back(static_cast<int32_t>(target_ids_.size()));
}

HostBatch PackedPairs::view() const {
  return {.source_ids = source_ids_,
          .source_position = source_position_,
          .source_offsets = source_offsets_,
          .target_ids = target_ids_,
          .target_position = target_position_,
          .labels = labels_,
          .target_offsets = target_offsets_};
}

}  // namespace ventris
