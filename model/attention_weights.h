// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "backend/device/tensor.h"

namespace ventris {

/// The three places of attention in the network.
enum class AttentionKind { kEncoderSelf, kDecoderSelf, kCross };
inline constexpr std::array<AttentionKind, 3> kAttentionKinds = {
    AttentionKind::kEncoderSelf, AttentionKind::kDecoderSelf, AttentionKind::kCross};

/// Destination of the attention weights of a forward pass: a tensor for each layer, as
/// AttentionForwardArgs::probabilities: [query rows, heads * max_keys] master. Kinds and layers without one
/// are not stored.
class AttentionWeights {
 public:
  void set(AttentionKind kind, int layer, Tensor weights) {
    std::vector<Tensor>& of_kind = tensors_[static_cast<size_t>(kind)];
    if (of_kind.size() <= static_cast<size_t>(layer)) of_kind.resize(static_cast<size_t>(layer) + 1);
    of_kind[static_cast<size_t>(layer)] = weights;
  }
  /// Empty if none was set.
  Tensor of(AttentionKind kind, int layer) const {
    const std::vector<Tensor>& of_kind = tensors_[static_cast<size_t>(kind)];
    return static_cast<size_t>(layer) < of_kind.size() ? of_kind[static_cast<size_t>(layer)] : Tensor{};
  }

 private:
  std::array<std::vector<Tensor>, kAttentionKinds.size()> tensors_;
};

}  // namespace ventris
