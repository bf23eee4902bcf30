#pragma once

#include <cstdint>
#include <vector>

#include "model/micro_batch.h"

namespace ventris {

/// The keys of each target row of a batch with given targets, as attention_decode() takes them: with it the
/// decoder computes the bits of a search (model/search/incremental_decoder.h), which attention_forward()
/// agrees with within rounding. Where activations are rounded to 8 bits, that can become a step of 1/127. On
/// the CPU alone.
struct SearchAttention {
  struct Keys {
    std::vector<int32_t> rows;   // of the keys
    std::vector<int32_t> begin;  // [target_rows + 1] where those of a row begin
  };
  Keys self;   // the rows of its sentence up to itself
  Keys cross;  // the source rows of its sentence

  explicit SearchAttention(const MicroBatch& batch);
};

}  // namespace ventris
