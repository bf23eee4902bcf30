// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "model/micro_batch.h"

namespace ventris {

/// The keys of each target row of a batch with given targets, in the form of attention_decode(): with it the
/// decoder computes the bits of a search (model/search/incremental_decoder.h), with which attention_forward()
/// agrees within rounding. If activations are rounded to 8 bits, rounding can become a step of 1/127. CPU
/// only.
struct SearchAttention {
  struct Keys {
    std::vector<int32_t> rows;   // of the keys
    std::vector<int32_t> begin;  // [target_rows + 1] begin of those of a row
  };
  Keys self;   // the rows of its sentence up to itself
  Keys cross;  // the source rows of its sentence

  explicit SearchAttention(const MicroBatch& batch);
};

}  // namespace ventris
