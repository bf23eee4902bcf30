// SPDX-License-Identifier: Apache-2.0
#include "data/packer.h"

namespace ventris::data {

Packer::Packer(const TokenizerPair& tokenizers, PackedBatch& packed)
    : source_end_id_(tokenizers.source().end_id()),
      begin_id_(tokenizers.target().begin_id()),
      end_id_(tokenizers.target().end_id()),
      packed_(packed) {
  for (auto* array : {&packed.source_ids, &packed.source_position, &packed.source_offsets, &packed.target_ids,
                      &packed.target_position, &packed.target_offsets, &packed.labels}) {
    array->clear();
  }
  packed.weights.clear();
  packed.source_offsets.push_back(0);
  packed.target_offsets.push_back(0);
}

void Packer::end_pair() {
  packed_.source_ids.push_back(source_end_id_);
  packed_.labels.push_back(end_id_);
  const auto end_side = [](std::vector<int32_t>& positions, std::vector<int32_t>& offsets, size_t rows) {
    const size_t count = rows - positions.size();
    for (size_t i = 0; i < count; ++i) positions.push_back(static_cast<int32_t>(i));
    offsets.push_back(static_cast<int32_t>(rows));
  };
  end_side(packed_.source_position, packed_.source_offsets, packed_.source_ids.size());
  end_side(packed_.target_position, packed_.target_offsets, packed_.target_ids.size());
}

}  // namespace ventris::data
