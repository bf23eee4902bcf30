// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "data/text/tokenizer.h"

namespace ventris::data {

/// The arrays of one packed micro-batch in host memory (model/micro_batch.h has the meaning of each).
struct PackedBatch {
  std::vector<int32_t> source_ids, source_position, source_offsets;
  std::vector<int32_t> target_ids, target_position, target_offsets, labels;
  std::vector<float> weights;  // of the sentences
  int sentences() const { return static_cast<int>(source_offsets.size()) - 1; }
  int64_t source_rows() const { return static_cast<int64_t>(source_ids.size()); }
  int64_t target_rows() const { return static_cast<int64_t>(target_ids.size()); }
};

/// Packs pairs end to end: the source with its end mark, the target shifted right after a begin mark, the
/// labels with their end mark. Overwrites `packed`, keeping its memory. Throws what reading a TokenView does.
class Packer {
 public:
  Packer(const TokenizerPair& tokenizers, PackedBatch& packed);
  /// Appends a pair whose loss has the weight. `Tokens` are a TokenView or a range of ids.
  template <typename Tokens>
  void add(const Tokens& source, const Tokens& target, float weight = 1.0F) {
    packed_.source_ids.insert(packed_.source_ids.end(), source.begin(), source.end());
    packed_.target_ids.push_back(begin_id_);
    packed_.target_ids.insert(packed_.target_ids.end(), target.begin(), target.end());
    packed_.labels.insert(packed_.labels.end(), target.begin(), target.end());
    packed_.weights.push_back(weight);
    end_pair();
  }

 private:
  void end_pair();

  const int32_t source_end_id_, begin_id_, end_id_;
  PackedBatch& packed_;
};

}  // namespace ventris::data
