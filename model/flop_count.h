// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "model/transformer_config.h"

namespace ventris {

/// Floating-point operations of a forward and a backward pass of training (three times the forward GEMMs and
/// attention products; no dropout, norm or softmax), from the offsets of the sentences, in host memory.
struct FlopCount {
  double encoder = 0, decoder = 0, output_projection = 0;
  double encoder_attention = 0, decoder_attention = 0;  // products of queries, keys, weights and values
  double total() const {
    return encoder + decoder + output_projection + encoder_attention + decoder_attention;
  }
  FlopCount& operator+=(const FlopCount& other);
};
FlopCount training_flops(const TransformerConfig& config, std::span<const int32_t> source_offsets,
                         std::span<const int32_t> target_offsets);

}  // namespace ventris
