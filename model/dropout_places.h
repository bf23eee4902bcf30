// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ventris {

/// The two stacks. The encoder processes the source rows of a micro-batch, the decoder its target rows.
enum class Stack : uint32_t { kEncoder = 0, kDecoder = 1 };

/// All places of dropout. DropoutKey::place of one of them is dropout_place(stack, layer, site); the
/// embedding counts as layer 0. The low 8 bits are reserved for attention heads. Changing a number changes
/// every mask, and so the bits of a run.
enum class DropoutSite : uint32_t {
  kEmbedding = 0,             // sum of embedding and position
  kSelfAttentionWeights = 1,  // attention weights
  kSelfAttentionOutput = 2,   // output of the sublayer, before the residual sum
  kCrossAttentionWeights = 3,
  kCrossAttentionOutput = 4,
  kFeedForwardOutput = 5,
  kFeedForwardHidden = 6,  // after the activation
};

constexpr uint32_t dropout_place(Stack stack, int layer, DropoutSite site) {
  return (static_cast<uint32_t>(stack) << 16 | static_cast<uint32_t>(layer) << 3 |
          static_cast<uint32_t>(site))
         << 8;
}

}  // namespace ventris
