// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "model/layer_drop.h"
#include "model/transformer_config.h"

namespace ventris {

/// Floating-point operations of a forward and a backward pass of training (three times the forward GEMMs and
/// attention products; no dropout, norm or softmax) through the layers that the micro-batch passes, from the
/// offsets of the sentences, in host memory. With R-Drop there are two such passes, through other layers.
struct FlopCount {
  double encoder = 0, decoder = 0, output_projection = 0;
  double encoder_attention = 0, decoder_attention = 0;  // products of queries, keys, weights and values
  double teachers = 0, teachers_output = 0;             // forward alone: their stacks, their output layers
  double total() const {
    return encoder + decoder + output_projection + encoder_attention + decoder_attention + teachers +
           teachers_output;
  }
  FlopCount& operator+=(const FlopCount& other);
};
FlopCount training_flops(const TransformerConfig& config, const PassedLayers& layers,
                         std::span<const int32_t> source_offsets, std::span<const int32_t> target_offsets);
/// Adds those of a teacher of that network (model/teachers.h).
void add_teacher_flops(FlopCount& count, const TransformerConfig& teacher,
                       std::span<const int32_t> source_offsets, std::span<const int32_t> target_offsets);

}  // namespace ventris
