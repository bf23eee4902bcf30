// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "model/cross_attention_layer.h"
#include "model/embedding_layer.h"
#include "model/feed_forward_layer.h"
#include "model/pass.h"
#include "model/self_attention_layer.h"
#include "model/transformer_config.h"

namespace ventris {

/// Embedding and decoder layers (section 3.1 of the paper). The keys and values of all cross-attention layers
/// are one GEMM on the encoder output: [source rows, layers * 2 * d_model], key then value of layer 0, of
/// layer 1, ...
class Decoder {
 public:
  struct LayerSaved {
    SelfAttentionLayer::Saved self_attention;
    CrossAttentionLayer::Saved cross_attention;
    FeedForwardLayer::Saved feed_forward;
  };
  struct Saved {
    Tensor embedded;                 // [target capacity, d_model] T
    Tensor key_value;                // [source capacity, layers * 2 * d_model] T
    Tensor d_key_value = {};         // the same, with training: its gradient, which all layers fill
    std::vector<LayerSaved> layers;  // unless all are kept, in one set of memory
    ResidualNorm::Saved norm;        // pre-norm
    ConstTensor memory = {};         // [source rows, d_model] T: the encoder output
  };

  /// `positions`: [max_positions, d_model] master.
  Decoder(const TransformerIds& ids, ConstTensor positions);

  static Saved plan(Arena& arena, const TransformerConfig& config, DType dtype,
                    const MicroBatchCapacity& capacity, KeptActivations kept);

  /// `memory`: the encoder output. Returns the decoder output, [target rows, d_model] T.
  ConstTensor forward(Pass& pass, ConstTensor memory, Saved& saved) const;

  /// Takes the gradient of the output in gradients.residual (post-norm) or gradients.input (pre-norm);
  /// overwrites d_memory, [source rows, d_model] T, which may be memory of `gradients`.
  void backward(Pass& pass, GradientStream& gradients, Tensor d_memory, Saved& saved,
                const GradientsReady& ready) const;

 private:
  struct Layer {
    SelfAttentionLayer self_attention;
    CrossAttentionLayer cross_attention;
    FeedForwardLayer feed_forward;
    ParameterId first;  // of its parameters
  };

  void forward_layer(Pass& pass, size_t index, ResidualStream& stream, Saved& saved) const;

  EmbeddingLayer embedding_;
  Linear key_value_;
  ParameterId own_table_;  // the embedding, or -1 if it is the encoder's too, whose backward completes it
  ParameterId first_;      // of the decoder
  std::vector<Layer> layers_;
  std::optional<ResidualNorm> norm_;
  ParameterId norm_first_;
};

}  // namespace ventris
