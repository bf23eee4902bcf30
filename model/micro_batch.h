#pragma once

#include <cstdint>

namespace ventris {

/// Packed sentences of one micro-batch on the device: the source and the target each end to end, without
/// padding between sentences. Source sentences end with the end mark. Target inputs are the target shifted
/// right: begin mark, w1, ..., wn; labels are w1, ..., wn, end mark.
struct MicroBatch {
  int sentences = 0;
  int64_t source_rows = 0;  // rows to compute; at least source_offsets[sentences]
  int64_t target_rows = 0;
  int64_t target_tokens = 0;                 // target_offsets[sentences]: rows that count in the loss
  const int32_t* source_ids = nullptr;       // [source_rows]
  const int32_t* source_position = nullptr;  // [source_rows] index in the sentence
  const int32_t* source_offsets = nullptr;   // [sentences + 1]
  const int32_t* target_ids = nullptr;       // [target_rows]
  const int32_t* target_position = nullptr;  // [target_rows]
  const int32_t* target_offsets = nullptr;   // [sentences + 1]
  const int32_t* labels = nullptr;           // [target_rows]
  uint32_t source_row_base = 0;  // index in the global batch of the first source row: keys dropout
  uint32_t target_row_base = 0;
};

/// The largest micro-batch that a model is planned for.
struct MicroBatchCapacity {
  int64_t source_rows = 0;
  int64_t target_rows = 0;
  int sentences = 0;
};

}  // namespace ventris
