// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "backend/ops/dropout.h"

namespace ventris {

/// Packed sentences of one micro-batch, the source and the target each end to end, without padding between
/// sentences. All pointers are to device memory. Source sentences end with the end mark. Target inputs are
/// the target shifted right: begin mark, w1, ..., wn; labels are w1, ..., wn, end mark. Rows after the last
/// token are padding: their ids, positions and labels are valid numbers, and no result depends on them.
/// Sentences after the last one are empty (equal offsets), so that one shape serves every step.
struct MicroBatch {
  int sentences = 0;
  int64_t source_rows = 0;  // rows to compute; at least source_offsets[sentences]
  int64_t target_rows = 0;  // at least target_offsets[sentences], which is the number of target tokens
  const int32_t* source_ids = nullptr;       // [source_rows]
  const int32_t* source_position = nullptr;  // [source_rows] index in the sentence
  const int32_t* source_offsets = nullptr;   // [sentences + 1]
  const int32_t* target_ids = nullptr;       // [target_rows]
  const int32_t* target_position = nullptr;  // [target_rows]
  const int32_t* target_offsets = nullptr;   // [sentences + 1]
  const int32_t* labels = nullptr;           // [target_rows]
  const float* weights = nullptr;            // [target_rows] factors of the loss of each row; null: all 1
  // For training; the orders of rows (backend/ops/row_order.h) where the stage of the batch has them:
  const int32_t* source_id_order = nullptr;         // [source_rows] rows sorted by (id, row)
  const int32_t* source_position_order = nullptr;   // [source_rows] rows sorted by (position, row)
  const int32_t* target_id_order = nullptr;         // [target_rows]
  const int32_t* target_position_order = nullptr;   // [target_rows]
  const DropoutPosition* source_dropout = nullptr;  // of the first source row
  const DropoutPosition* target_dropout = nullptr;  // of the first target row
  const float* gradient_scale = nullptr;            // factor of the gradients of this micro-batch
};

/// The largest micro-batch for which a model is planned.
struct MicroBatchCapacity {
  int64_t source_rows = 0;
  int64_t target_rows = 0;
  int sentences = 0;
  bool operator==(const MicroBatchCapacity&) const = default;
};

}  // namespace ventris
