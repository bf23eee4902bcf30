// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/batch_stage.h"

namespace ventris {

/// Tokens that are not text: those after the last token of both sides, and the first token of a target.
struct Marks {
  int32_t source_end_id;
  int32_t begin_id;  // of targets, as is
  int32_t end_id;
};

/// Sentence pairs with given targets, packed end to end in host memory as in model/micro_batch.h.
class PackedPairs {
 public:
  explicit PackedPairs(const Marks& marks) : marks_(marks) {}

  /// Tokens without marks.
  void add(std::span<const int32_t> source, std::span<const int32_t> target);

  int64_t source_rows() const { return std::ssize(source_ids_); }
  int64_t target_rows() const { return std::ssize(target_ids_); }
  /// [pairs + 1]: the first target row of each pair, and the end of the last.
  std::span<const int32_t> target_offsets() const { return target_offsets_; }
  /// Points into this object.
  HostBatch view() const;

 private:
  Marks marks_;
  std::vector<int32_t> source_ids_, source_position_, source_offsets_ = {0};
  std::vector<int32_t> target_ids_, target_position_, target_offsets_ = {0};
  std::vector<int32_t> labels_;
};

}  // namespace ventris
