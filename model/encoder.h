// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "model/embedding_layer.h"
#include "model/feed_forward_layer.h"
#include "model/pass.h"
#include "model/self_attention_layer.h"
#include "model/transformer_config.h"

namespace ventris {

/// Embedding and encoder layers (section 3.1 of the paper).
class Encoder {
 public:
  struct LayerSaved {
    SelfAttentionLayer::Saved self_attention;
    FeedForwardLayer::Saved feed_forward;
  };
  struct Saved {
    Tensor embedded;                 // [capacity, d_model] T
    std::vector<LayerSaved> layers;  // unless all are kept, in one set of memory
    ResidualNorm::Saved norm;        // pre-norm
  };

  /// `positions`: [max_positions, d_model] master.
  Encoder(const TransformerIds& ids, ConstTensor positions);

  static Saved plan(Arena& arena, const TransformerConfig& config, DType dtype, int64_t capacity,
                    KeptActivations kept);

  /// Returns the encoder output, [source rows, d_model] T.
  ConstTensor forward(Pass& pass, Saved& saved) const;

  /// Takes the gradient of the output in gradients.residual (post-norm) or gradients.input (pre-norm).
  void backward(Pass& pass, GradientStream& gradients, Saved& saved, const GradientsReady& ready) const;

 private:
  struct Layer {
    SelfAttentionLayer self_attention;
    FeedForwardLayer feed_forward;
    ParameterId first;  // of its parameters
  };

  void forward_layer(Pass& pass, size_t index, ResidualStream& stream, LayerSaved& saved) const;

  EmbeddingLayer embedding_;
  std::vector<Layer> layers_;
  std::optional<ResidualNorm> norm_;
  ParameterId norm_first_;
};

}  // namespace ventris
